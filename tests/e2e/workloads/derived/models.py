# SPDX-License-Identifier: Apache-2.0
"""Models that several workloads train, and how."""

import torch
import torch.nn.functional as F
from torch import nn

STEPS = 5  # the first ones prove what the later ones derive


def train(model: nn.Module, batch, steps: int = STEPS, loss=lambda y: y.square().mean()) -> dict:
    """Gradients of every step, and the last parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    values = {}
    for step in range(steps):
        optimizer.zero_grad()
        loss(model(batch())).backward()
        for name, parameter in model.named_parameters():
            values[f"{step}.{name}"] = parameter.grad.clone()
        optimizer.step()
    return values


def images():
    return torch.randn(4, 3, 16, 16)


def channels_last_images():
    return images().contiguous(memory_format=torch.channels_last)


def sequences():
    return torch.randn(3, 17, 24)


class Residual(nn.Module):
    def __init__(self, channels: int, inplace: bool):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.inplace = inplace

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), self.inplace)
        y = self.norm2(self.conv2(y))
        if self.inplace:
            y += x
        else:
            y = x + y
        return F.relu(y, self.inplace)


def resnet(inplace: bool) -> nn.Module:
    stem = [nn.Conv2d(3, 13, 3, padding=1), nn.BatchNorm2d(13), nn.ReLU(inplace)]
    return nn.Sequential(*stem, *[Residual(13, inplace) for _ in range(3)], nn.Conv2d(13, 2, 1))


class Block(nn.Module):
    def __init__(self, width: int, activation=F.gelu, **norm):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, **norm), nn.LayerNorm(width, **norm)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Attention(nn.Module):
    """With separate projections, as BERT has it, and a mask."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        heads = lambda y: y.unflatten(-1, (2, -1)).transpose(1, 2)
        mask = torch.arange(x.shape[1]) < x.shape[1] - torch.arange(x.shape[0])[:, None]
        attended = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), mask[:, None, None], scale=0.3
        )
        return x + self.out(attended.transpose(1, 2).flatten(2))


class Autocast(nn.Module):
    def __init__(self, *layers, dtype=torch.bfloat16):
        super().__init__()
        self.inner, self.dtype = nn.Sequential(*layers), dtype

    def forward(self, x):
        with torch.autocast(torch.get_default_device().type, dtype=self.dtype):
            return self.inner(x).float()
