# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel in two processes over gloo, with synchronized batch norm left out and buckets small."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    number = seed()
    dist.init_process_group("gloo", rank=rank, world_size=2)
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
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, (port,), nprocs=2)
