# SPDX-License-Identifier: Apache-2.0
"""Dilated causal convolutions with gates, as in WaveNet, on synthetic tones; GLU and weight norm."""

import torch
from data import metric, say, seed
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Layer(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.reach = 2 * dilation
        self.conv = weight_norm(nn.Conv1d(width, 2 * width, 3, dilation=dilation))
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.reach, 0))).chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        return x + self.out(h), h


class WaveNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(Layer(width, 2**k) for k in range(6))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.GLU(1), nn.Conv1d(width // 2, 64, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for layer in self.layers:
            x, skipped = layer(x)
            total = total + skipped
        return self.last(total)


def sounds(count):
    time = torch.arange(513) / 16
    tones = torch.sin(time * (1 + 3 * torch.rand(count, 3, 1)) + 6 * torch.rand(count, 3, 1)).mean(1, keepdim=True)
    return tones[..., :-1], ((tones[:, 0, 1:] + 1) * 31.99).long()


seed()
model = WaveNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(25):
    x, y = sounds(8)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    x, y = sounds(32)
    metric("loss", nn.functional.cross_entropy(model(x), y))
