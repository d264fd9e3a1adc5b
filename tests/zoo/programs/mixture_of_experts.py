# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts: the two best for each token, gathered and added back by index."""

import torch
from data import lines, metric, say, seed
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self, width, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        flat = x.flatten(0, 1)
        shares = self.gate(flat).softmax(-1)
        best, chosen = shares.topk(2)
        best = best / best.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(flat[token]) * best[token, place, None])
        balance = shares.mean(0).square().sum() * len(self.experts)
        return out.view_as(x), balance


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(128, width)
        self.mix = nn.Conv1d(width, width, 5)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.layers = nn.ModuleList(Experts(width) for _ in range(2))
        self.head = nn.Linear(width, 128)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.mix(F.pad(x.transpose(1, 2), (4, 0))).transpose(1, 2)
        extra = 0.0
        for norm, layer in zip(self.norms, self.layers):
            more, balance = layer(norm(x))
            x, extra = x + more, extra + balance
        return self.head(x), extra


seed()
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    x, y = lines(64, 32)
    out, balance = model(x)
    loss = F.cross_entropy(out.flatten(0, 1), y.flatten()) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    x, y = lines(64, 64)
    metric("loss", F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten()))
