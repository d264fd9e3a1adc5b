# SPDX-License-Identifier: Apache-2.0
"""timm's EfficientNet (SiLU, squeeze and excitation)."""

import timm
import torch
from data import batches, digits, metric, say, seed

seed()
images, labels = digits(size=32, channels=3)
model = timm.create_model("efficientnet_b0", num_classes=10)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
for step, (x, y) in enumerate(batches(20, images[:1400], labels[:1400], 32)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    metric("loss", torch.nn.functional.cross_entropy(model(images[1400:1528]), labels[1400:1528]))
