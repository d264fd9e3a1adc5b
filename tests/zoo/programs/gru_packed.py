# SPDX-License-Identifier: Apache-2.0
"""A bidirectional GRU over packed sequences of different lengths that tells which row of a digit comes first."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(16, 64, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.cells(packed)
        return self.head(last.transpose(0, 1).flatten(1))


seed()
images, labels = digits(size=16)
rows = images[:, 0]
model = Model()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
for step, (x, y) in enumerate(batches(50, rows[:1400], labels[:1400], 64)):
    lengths = torch.randint(12, 17, (len(x),))
    loss = nn.functional.cross_entropy(model(x, lengths), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
with torch.no_grad():
    full = torch.full((397,), 16)
    metric("accuracy", (model(rows[1400:], full).argmax(1) == labels[1400:]).float().mean())
