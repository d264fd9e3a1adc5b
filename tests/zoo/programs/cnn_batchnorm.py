# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network: batch norm, ReLU, max-pool, dropout."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn

seed()
images, labels = digits(size=16)


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), nn.MaxPool2d(2)
    )


model = nn.Sequential(
    block(1, 32), block(32, 64), block(64, 64), nn.Flatten(), nn.Dropout(0.25), nn.Linear(64 * 4, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step, (x, y) in enumerate(batches(60, images[:1400], labels[:1400], 64)):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
