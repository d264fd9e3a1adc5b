# SPDX-License-Identifier: Apache-2.0
"""A residual network whose blocks are recomputed: torch.utils.checkpoint without re-entering autograd."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x):
        return x + self.body(x)


seed()
images, labels = digits(size=16)
first, head = nn.Conv2d(1, 32, 3, padding=1), nn.Linear(32 * 16, 10)
blocks = nn.ModuleList(Block(32) for _ in range(4))
parameters = [*first.parameters(), *blocks.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)


def forward(x):
    x = first(x)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    return head(nn.functional.avg_pool2d(x, 4).flatten(1))


for step, (x, y) in enumerate(batches(25, images[:1400], labels[:1400], 32)):
    loss = nn.functional.cross_entropy(forward(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    metric("accuracy", (forward(images[1400:]).argmax(1) == labels[1400:]).float().mean())
