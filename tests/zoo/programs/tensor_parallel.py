# SPDX-License-Identifier: Apache-2.0
"""An MLP whose columns and rows two processes share: DTensor by torch.distributed.tensor.parallel over gloo."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from data import batches, digits, metric, say, seed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def work(rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    seed()
    dist.init_process_group("gloo", rank=rank, world_size=2)
    images, labels = digits(size=16)
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 10))
    plan = {"1": ColwiseParallel(), "3": RowwiseParallel()}
    model = parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
    for step, (x, y) in enumerate(batches(40, images[:1400], labels[:1400], 64)):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 9:
            say(step, loss)
    with torch.no_grad():
        right = (model(images[1400:]).argmax(1) == labels[1400:]).float().mean()
    if rank == 0:
        metric("accuracy", right)
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(work, (port,), nprocs=2)
