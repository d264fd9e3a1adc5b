# SPDX-License-Identifier: Apache-2.0
"""LeNet as in 1998: tanh and average pooling."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn

seed()
images, labels = digits(size=32)
model = nn.Sequential(
    nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2),
    nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
    nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(),
    nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step, (x, y) in enumerate(batches(50, images[:1400], labels[:1400], 64)):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
with torch.no_grad():
    metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
