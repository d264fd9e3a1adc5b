# SPDX-License-Identifier: Apache-2.0
"""A network of sines that learns one image from coordinates, and its gradient by another backward."""

import torch
from data import digits, metric, say, seed
from torch import nn


class Sine(nn.Module):
    def __init__(self, inputs, outputs, scale):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        nn.init.uniform_(self.linear.weight, -scale, scale)

    def forward(self, x):
        return torch.sin(30 * self.linear(x))


seed()
image = digits(size=64)[0][0].flatten()[:, None]
grid = torch.linspace(-1, 1, 64)
points = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).view(-1, 2)
model = nn.Sequential(Sine(2, 64, 0.5), Sine(64, 64, 0.01), Sine(64, 64, 0.01), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
for step in range(50):
    x = points.clone().requires_grad_()
    y = model(x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    loss = (y - image).square().mean() + 1e-4 * slope.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
with torch.no_grad():
    metric("error", (model(points) - image).square().mean())
