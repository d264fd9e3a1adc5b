# SPDX-License-Identifier: Apache-2.0
"""Digits that move, told apart by convolutions in three dimensions; channels-last memory, PReLU."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn

seed()
images, labels = digits(size=16)


def moved(x):
    steps = torch.randint(-1, 2, (2,)).tolist()
    frames = [x.roll((t * steps[0], t * steps[1]), (2, 3)) for t in range(6)]
    return torch.stack(frames, 2).contiguous(memory_format=torch.channels_last_3d)


def block(inputs, outputs):
    return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), nn.BatchNorm3d(outputs), nn.PReLU(outputs))


model = nn.Sequential(
    block(1, 16), nn.MaxPool3d((1, 2, 2)), block(16, 32), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(32 * 3 * 16, 10)
).to(memory_format=torch.channels_last_3d)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
for step, (x, y) in enumerate(batches(25, images[:1400], labels[:1400], 16)):
    loss = nn.functional.cross_entropy(model(moved(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    metric("accuracy", (model(moved(images[1400:])).argmax(1) == labels[1400:]).float().mean())
