# SPDX-License-Identifier: Apache-2.0
"""A decoder as in GPT-2, every operator written out: eager attention with a mask, GELU by tanh, learned positions."""

import math

import torch
from data import lines, metric, say, seed
from torch import nn


def gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(length, length, dtype=torch.bool)))

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        shares = self.dropout(scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1))
        return self.out((shares @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.norm1(x)))
        return x + self.dropout(self.down(gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, width=96, length=64):
        super().__init__()
        self.embed, self.place = nn.Embedding(128, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4, length) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 128, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, x):
        x = self.embed(x) + self.place(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


seed()
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(40):
    x, y = lines(64, 16)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    x, y = lines(64, 64)
    metric("loss", nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()))
