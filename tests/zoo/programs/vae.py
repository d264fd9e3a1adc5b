# SPDX-License-Identifier: Apache-2.0
"""A variational autoencoder: reparametrization, ELU, softplus, transposed convolutions."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn import functional as F

seed()
images, labels = digits(size=16)
encode = nn.Sequential(
    nn.Conv2d(1, 32, 3, 2, 1), nn.ELU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(1024, 32)
)
decode = nn.Sequential(
    nn.Linear(16, 1024), nn.ELU(), nn.Unflatten(1, (64, 4, 4)),
    nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh(),
)  # fmt: skip
optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()], lr=2e-3)


def losses(x):
    mean, raw = encode(x).chunk(2, 1)
    deviation = F.softplus(raw) + 1e-4
    restored = decode(mean + deviation * torch.randn_like(deviation))
    divergence = 0.5 * (mean**2 + deviation**2 - 1 - 2 * deviation.log()).sum(1).mean()
    return (restored - x).square().sum((1, 2, 3)).mean() + 0.5 * divergence


for step, (x, _) in enumerate(batches(60, images[:1400], labels[:1400], 64)):
    loss = losses(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
with torch.no_grad():
    torch.manual_seed(1)
    metric("loss", losses(images[1400:]))
