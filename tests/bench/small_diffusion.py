# SPDX-License-Identifier: Apache-2.0
"""A small diffusion model: a U-Net that tells the noise in an image, and how images are made noisy."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from small_models import Attention


def noisy(clean: torch.Tensor, time: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """`clean` at each image's own `time` from 0 (the image) to 1 (the noise); the variance stays the same between them."""
    angle = (time * (math.pi / 2))[:, None, None, None]
    return angle.cos() * clean + angle.sin() * noise


class TimedBlock(nn.Module):
    """Two convolutions after group norm and SiLU, with what time it is added between them, beside a shortcut."""

    def __init__(self, i, o, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.time, self.shortcut = nn.Linear(time, o), nn.Conv2d(i, o, 1) if i != o else nn.Identity()
    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class PixelAttention(nn.Module):
    """Attention between the pixels of a feature map, beside a shortcut."""

    def __init__(self, dim, heads):
        super().__init__()
        self.norm, self.attention = nn.GroupNorm(4, dim), Attention(dim, heads, causal=False)
    def forward(self, x):
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).reshape(x.shape)


class DiffusionUNet(nn.Module):
    """Three resolutions, attention at the lowest one. Takes noisy images and their times, gives the noise."""

    def __init__(self, width=16, time=64):
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(8) * math.pi / 2, persistent=False)
        self.time = nn.Sequential(nn.Linear(16, time), nn.SiLU(), nn.Linear(time, time), nn.SiLU())
        self.into = nn.Conv2d(1, width, 3, padding=1)
        self.down1, self.down2 = TimedBlock(width, width, time), TimedBlock(width, 2 * width, time)
        self.middle1, self.middle2 = TimedBlock(2 * width, 4 * width, time), TimedBlock(4 * width, 4 * width, time)
        self.attention = PixelAttention(4 * width, heads=4)
        self.up2, self.up1 = TimedBlock(6 * width, 2 * width, time), TimedBlock(3 * width, width, time)
        self.out = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))
    def forward(self, x, time):
        waves = time[:, None] * self.frequencies
        time = self.time(torch.cat([waves.sin(), waves.cos()], 1))
        fine = self.down1(self.into(x), time)
        coarse = self.down2(F.avg_pool2d(fine, 2), time)
        y = self.middle2(self.attention(self.middle1(F.avg_pool2d(coarse, 2), time)), time)
        y = self.up2(torch.cat([F.interpolate(y, scale_factor=2), coarse], 1), time)
        return self.out(self.up1(torch.cat([F.interpolate(y, scale_factor=2), fine], 1), time))
