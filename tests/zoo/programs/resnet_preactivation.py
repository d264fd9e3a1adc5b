# SPDX-License-Identifier: Apache-2.0
"""A residual network of its own making, norm before convolution, in bf16 under autocast."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        h = F.relu(self.norm1(x))
        return self.shortcut(x) + self.conv2(F.relu(self.norm2(self.conv1(h))))


seed()
images, labels = digits(size=16)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
    nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
for step, (x, y) in enumerate(batches(40, images[:1400], labels[:1400], 32)):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
