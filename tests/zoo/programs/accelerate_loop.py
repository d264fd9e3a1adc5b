# SPDX-License-Identifier: Apache-2.0
"""A loop of accelerate's: prepared model and loader, accumulated gradients, clipping, a schedule."""

import torch
from accelerate import Accelerator
from data import digits, metric, say, seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

seed()
images, labels = digits(size=16)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.Mish(), nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(8, 64),
    nn.Mish(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 10),
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
loader = DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=32, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for step, (x, y) in enumerate(loader):
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if step % 10 == 9:
        say(step, loss)
model.eval()
with torch.no_grad():
    metric("accuracy", (model(images[1400:]).argmax(1) == labels[1400:]).float().mean())
