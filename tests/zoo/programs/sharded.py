# SPDX-License-Identifier: Apache-2.0
"""Fully sharded parameters (FSDP2) in two processes over gloo: each layer's are gathered and freed again."""

import torch
from data import in_two_processes, lines, metric, say, seed
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def work(rank):
    number = seed()
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Embedding(128, 64), Layer(64), Layer(64), nn.Linear(64, 128))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(2 * number + rank)
    for step in range(25):
        x, y = lines(64, 32)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 5 == 4:
            say(step, loss)
    torch.manual_seed(1)
    with torch.no_grad():
        x, y = lines(64, 64)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    if rank == 0:
        metric("loss", loss)


if __name__ == "__main__":
    in_two_processes(work)
