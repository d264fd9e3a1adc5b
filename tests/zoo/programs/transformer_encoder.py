# SPDX-License-Identifier: Apache-2.0
"""nn.TransformerEncoder over the rows of digits, with dropout."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Linear(16, width)
        self.place = nn.Parameter(torch.randn(16, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(width, 10)

    def forward(self, rows):
        return self.head(self.layers(self.embed(rows) + self.place).mean(1))


seed()
images, labels = digits(size=16)
rows = images[:, 0]
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (x, y) in enumerate(batches(60, rows[:1400], labels[:1400], 64)):
    loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(rows[1400:]).argmax(1) == labels[1400:]).float().mean())
