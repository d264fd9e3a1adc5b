# SPDX-License-Identifier: Apache-2.0
"""A U-Net that finds the ink of digits under noise: skip connections by cat, transposed convolutions, LeakyReLU."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn
from torch.nn import functional as F


def twice(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.InstanceNorm2d(outputs, affine=True), nn.LeakyReLU(0.1),
        nn.Conv2d(outputs, outputs, 3, padding=1), nn.InstanceNorm2d(outputs, affine=True), nn.LeakyReLU(0.1),
    )  # fmt: skip


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2, self.middle = twice(1, width), twice(width, 2 * width), twice(2 * width, 4 * width)
        self.grow2, self.grow1 = (nn.ConvTranspose2d(2 * n * width, n * width, 2, 2) for n in (2, 1))
        self.up2, self.up1 = twice(4 * width, 2 * width), twice(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([b, self.grow2(c)], 1))
        a = self.up1(torch.cat([a, self.grow1(b)], 1))
        return self.head(a)


seed()
images, labels = digits(size=32)
model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step, (x, _) in enumerate(batches(30, images[:1400], labels[:1400], 16)):
    ink = (x > 0).float()
    loss = F.binary_cross_entropy_with_logits(model(x + torch.randn_like(x)), ink)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    torch.manual_seed(1)
    x = images[1400:1528]
    found = model(x + torch.randn_like(x)) > 0
    metric("pixels_right", (found == (x > 0)).float().mean())
