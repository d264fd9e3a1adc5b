# SPDX-License-Identifier: Apache-2.0
"""torch.compile with its default backend: a ConvNet and a gated MLP in one compiled module."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.more = nn.Sequential(nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU())
        self.gate, self.value, self.head = nn.Linear(64, 256), nn.Linear(64, 256), nn.Linear(256, 10)

    def forward(self, x):
        x = self.more(self.stem(x)).flatten(2).transpose(1, 2)
        x = nn.functional.silu(self.gate(x)) * self.value(x)
        return self.head(x.mean(1))


seed()
images, labels = digits(size=32)
model = Model()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step, (x, y) in enumerate(batches(30, images[:1400], labels[:1400], 64)):
    loss = nn.functional.cross_entropy(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
