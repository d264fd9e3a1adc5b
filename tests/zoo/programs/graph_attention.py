# SPDX-License-Identifier: Apache-2.0
"""Graph attention written out: messages along edges, a softmax over each node's, sums by scatter."""

import torch
from data import digits, metric, say, seed
from torch import nn

seed()
images, labels = digits()
points = images.flatten(1)
near = torch.cdist(points, points).topk(9, largest=False).indices[:, 1:]
target = torch.arange(len(points)).repeat_interleave(8)
source = near.flatten()
known = torch.zeros(len(points), dtype=torch.bool)
known[torch.randperm(len(points))[:300]] = True


class Layer(nn.Module):
    def __init__(self, inputs, outputs, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(inputs, heads * outputs)
        self.ask, self.answer = (nn.Parameter(torch.randn(heads, outputs) * 0.1) for _ in range(2))

    def forward(self, x):
        h = self.project(x).view(len(x), self.heads, -1)
        scores = (h * self.ask).sum(-1)[source] + (h * self.answer).sum(-1)[target]
        scores = nn.functional.leaky_relu(scores, 0.2).exp()
        total = torch.zeros(len(x), self.heads).index_add(0, target, scores)
        shares = scores / total[target]
        out = torch.zeros_like(h).index_add(0, target, shares[..., None] * h[source])
        return nn.functional.elu(out.flatten(1))


model = nn.Sequential(Layer(64, 16, 4), nn.Dropout(0.3), Layer(64, 16, 4), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-4)
for step in range(25):
    loss = nn.functional.cross_entropy(model(points)[known], labels[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(points)[~known].argmax(1) == labels[~known]).float().mean())
