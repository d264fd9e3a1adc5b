# SPDX-License-Identifier: Apache-2.0
"""Two processes in turn train one model that lies in shared memory, each started by fork."""

import torch
import torch.multiprocessing as mp
from data import batches, digits, metric, say, seed
from torch import nn


def work(rank, model, turn):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images, labels = digits(size=16)
    for step, (x, y) in enumerate(batches(20, images[:1400], labels[:1400], 64)):
        turn[rank].acquire()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            say(10 * step + rank, loss)
        turn[1 - rank].release()


if __name__ == "__main__":
    seed()
    context = mp.get_context("fork")
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.Hardswish(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 10)
    ).share_memory()
    turn = [context.Semaphore(1), context.Semaphore(0)]
    workers = [context.Process(target=work, args=(rank, model, turn)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    images, labels = digits(size=16)
    with torch.no_grad():
        metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
