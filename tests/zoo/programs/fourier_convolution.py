# SPDX-License-Identifier: Apache-2.0
"""A Fourier neural operator in one dimension: spectra times complex weights, for Burgers-like data."""

import torch
from data import metric, say, seed
from torch import nn


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros_like(spectrum)
        out[..., : self.modes] = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


class Operator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.lift, self.drop = nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.spectral = nn.ModuleList(Spectral(width, 16) for _ in range(3))
        self.pointwise = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(3))

    def forward(self, x):
        x = self.lift(x)
        for spectral, pointwise in zip(self.spectral, self.pointwise):
            x = nn.functional.gelu(spectral(x) + pointwise(x))
        return self.drop(x)


def sample(count):
    x = torch.linspace(0, 2 * torch.pi, 257)[:-1]
    waves = torch.randn(count, 5, 1) * torch.sin(torch.arange(1, 6)[:, None] * x + 6 * torch.rand(count, 5, 1))
    start = waves.sum(1, keepdim=True)
    return start, torch.tanh(start) * start.roll(16, -1)


seed()
model = Operator()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(50):
    x, y = sample(32)
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    x, y = sample(128)
    metric("loss", (model(x) - y).square().mean())
