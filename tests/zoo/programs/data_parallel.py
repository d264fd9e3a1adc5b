# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in two processes over gloo, with synchronized batch norm left out and buckets small."""

import torch
from data import batches, digits, in_two_processes, metric, say, seed
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank):
    number = seed()
    images, labels = digits(size=16)
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(8, 64), nn.ReLU(), nn.Flatten(), nn.Linear(4096, 10),
        ),
        bucket_cap_mb=0.1,
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    torch.manual_seed(2 * number + rank)
    for step, (x, y) in enumerate(batches(25, images[:1400], labels[:1400], 32)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 4:
            say(step, loss)
    if rank == 0:
        with torch.no_grad():
            metric("accuracy", (model.module(images[1400:]).argmax(1) == labels[1400:]).float().mean())


if __name__ == "__main__":
    in_two_processes(work)
