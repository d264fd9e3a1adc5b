# SPDX-License-Identifier: Apache-2.0
"""torchvision's Swin-like windows (shifted attention, stochastic depth)."""

import torch
import torchvision
from data import batches, digits, metric, say, seed

seed()
images, labels = digits(size=32, channels=3)
model = torchvision.models.SwinTransformer([2, 2], 32, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.1, num_classes=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step, (x, y) in enumerate(batches(20, images[:1400], labels[:1400], 32)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    metric("loss", torch.nn.functional.cross_entropy(model(images[1400:1528]), labels[1400:1528]))
