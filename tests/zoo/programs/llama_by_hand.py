# SPDX-License-Identifier: Apache-2.0
"""A decoder as in Llama, written out: RMSNorm, rotary positions, grouped queries, SwiGLU."""

import torch
from data import lines, metric, say, seed
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Block(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 8 * width // 3, bias=False) for _ in range(2))
        self.down = nn.Linear(8 * width // 3, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.norm1(x)
        q = rotate(self.q(h).view(b, t, self.heads, -1).transpose(1, 2), cos, sin)
        k = rotate(self.k(h).view(b, t, self.groups, -1).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, t, self.groups, -1).transpose(1, 2)
        k, v = (part.repeat_interleave(self.heads // self.groups, 1) for part in (k, v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, width=96, heads=4, length=64):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width, heads, 2) for _ in range(3))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, 128, bias=False)
        size = width // heads
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


seed()
model = Llama()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(40):
    x, y = lines(64, 16)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    x, y = lines(64, 64)
    metric("loss", F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
