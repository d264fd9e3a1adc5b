# SPDX-License-Identifier: Apache-2.0
"""An MLP whose columns and rows two processes share: DTensor by torch.distributed.tensor.parallel over gloo."""

import torch
from data import batches, digits, in_two_processes, metric, say, seed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def work(rank):
    seed()
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


if __name__ == "__main__":
    in_two_processes(work)
