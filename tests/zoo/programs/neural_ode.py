# SPDX-License-Identifier: Apache-2.0
"""A differential equation whose right side is a network, integrated by Runge and Kutta's steps of order four."""

import torch
from data import metric, say, seed
from torch import nn

seed()
field = nn.Sequential(nn.Linear(2, 64), nn.Softplus(), nn.Linear(64, 64), nn.Softplus(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(field.parameters(), lr=3e-3)


def truth(x):
    return torch.stack([x[:, 1], -x[:, 0] + 0.5 * (1 - x[:, 0] ** 2) * x[:, 1]], 1)


def path(slope, x, steps, h=0.1):
    passed = []
    for _ in range(steps):
        a = slope(x)
        b = slope(x + h / 2 * a)
        c = slope(x + h / 2 * b)
        d = slope(x + h * c)
        x = x + h / 6 * (a + 2 * b + 2 * c + d)
        passed.append(x)
    return torch.stack(passed)


for step in range(25):
    start = torch.randn(256, 2)
    loss = (path(field, start, 12) - path(truth, start, 12)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    start = torch.randn(512, 2)
    metric("error", (path(field, start, 12) - path(truth, start, 12)).abs().mean())
