# SPDX-License-Identifier: Apache-2.0
"""A U-Net, which no library has in small; of tests/gpu too."""

import torch
import torch.nn.functional as F
from torch import nn


class UNet(nn.Module):
    """Skip connections that are concatenated, pooling down, transposed convolution up."""

    def __init__(self, width: int, levels: int):
        super().__init__()

        def double(inputs, outputs):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            )  # fmt: skip

        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(double(i, o) for i, o in zip([3, *widths], widths[:-1]))
        self.bottom = double(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(double(2 * w, w) for w in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skipped.pop(), up(x)], dim=1))
        return self.head(x)
