# SPDX-License-Identifier: Apache-2.0
"""A character model by two layers of LSTM, with gradient clipping."""

import torch
from data import lines, metric, say, seed
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(128, 64)
        self.cells = nn.LSTM(64, 128, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(128, 128)

    def forward(self, x):
        return self.head(self.cells(self.embed(x))[0])


seed()
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(40):
    x, y = lines(64, 32)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    x, y = lines(64, 128)
    metric("loss", nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()))
