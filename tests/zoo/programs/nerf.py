# SPDX-License-Identifier: Apache-2.0
"""A radiance field: encoded positions, densities by softplus, colours along rays by a cumulative product."""

import torch
from data import metric, say, seed
from torch import nn


def encode(x, levels=6):
    angles = x[..., None] * 2.0 ** torch.arange(levels)
    return torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)


class Field(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(39, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.second = nn.Sequential(nn.Linear(width + 39, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, points):
        x = encode(points)
        out = self.second(torch.cat([self.first(x), x], -1))
        return torch.sigmoid(out[..., :3]), nn.functional.softplus(out[..., 3])


def render(colour, density, step):
    light = torch.exp(-density * step)
    reached = torch.cumprod(torch.cat([torch.ones_like(light[..., :1]), light[..., :-1] + 1e-10], -1), -1)
    return ((reached * (1 - light))[..., None] * colour).sum(-2)


def truth(points):
    inside = (points.norm(dim=-1) < 0.6).float()
    return points * 0.5 + 0.5, 20 * inside


def rays(count, samples=32):
    start = torch.randn(count, 1, 3)
    start = start / start.norm(dim=-1, keepdim=True)
    aim = 0.3 * torch.randn(count, 1, 3) - start
    return start + aim * torch.linspace(0, 2, samples)[:, None], 2 / samples


seed()
model = Field()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    points, width = rays(256)
    loss = (render(*model(points), width) - render(*truth(points), width)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    points, width = rays(1024)
    metric("error", (render(*model(points), width) - render(*truth(points), width)).square().mean())
