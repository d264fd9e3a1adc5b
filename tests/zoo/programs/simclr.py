# SPDX-License-Identifier: Apache-2.0
"""Contrastive learning: two views of each image, NT-Xent over the whole batch."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn import functional as F

seed()
images, labels = digits(size=16)
encoder = nn.Sequential(
    nn.Conv2d(1, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU6(),
    nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU6(), nn.Flatten(), nn.Linear(1024, 128),
)  # fmt: skip
projector = nn.Sequential(nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64))
optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)


def view(x):
    angle = 0.4 * (torch.rand(len(x)) - 0.5)
    rows = torch.stack([angle.cos(), -angle.sin(), 0.2 * torch.randn(len(x))], -1)
    columns = torch.stack([angle.sin(), angle.cos(), 0.2 * torch.randn(len(x))], -1)
    grid = F.affine_grid(torch.stack([rows, columns], 1), x.shape, align_corners=False)
    return F.grid_sample(x, grid, align_corners=False) + 0.1 * torch.randn_like(x)


for step, (x, _) in enumerate(batches(40, images[:1400], labels[:1400], 64)):
    z = F.normalize(projector(encoder(torch.cat([view(x), view(x)]))), dim=1)
    alike = (z @ z.T / 0.2).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    loss = F.cross_entropy(alike, torch.arange(len(z)).roll(len(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
encoder.eval()
with torch.no_grad():
    known, asked = (F.normalize(encoder(part), dim=1) for part in (images[:1400], images[1400:]))
    nearest = labels[:1400][(asked @ known.T).argmax(1)]
    metric("nearest_neighbour_accuracy", (nearest == labels[1400:]).float().mean())
