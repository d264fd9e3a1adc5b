# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads.derived.models import Autocast, Residual, STEPS, channels_last_images, images, resnet, train
from workloads.registry import workload


@workload
def batch_norm_and_relu():
    return train(resnet(inplace=False), images)


@workload
def batch_norm_and_relu_in_place():
    return train(resnet(inplace=True), images)


@workload
def batch_norm_and_relu_channels_last():
    return train(resnet(inplace=True).to(memory_format=torch.channels_last), channels_last_images)


@workload
def batch_norm_in_evaluation():
    model = resnet(inplace=False)
    train(model, images, steps=1)
    return train(model.eval(), images)


@workload
def batch_norm_without_parameters():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False), nn.ReLU(), nn.Conv2d(8, 2, 1)]
    return train(nn.Sequential(*layers), images)


@workload
def batch_norm_with_a_frozen_bias():
    norm = nn.BatchNorm2d(8)
    norm.bias = nn.Parameter(torch.randn(8), requires_grad=False)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 2, 1))
    values = {}
    for step in range(STEPS):
        model.zero_grad()
        model(images()).square().sum().backward()
        values[f"{step}"] = model[0].weight.grad.clone()
    return values


@workload
def batch_norm_over_rows():
    layers = [nn.Linear(20, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 7)]
    return train(nn.Sequential(*layers), lambda: torch.randn(64, 20))


@workload
def group_norm_and_silu():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    return train(nn.Sequential(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)]), images)


@workload
def group_norm_and_silu_channels_last():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    model = nn.Sequential(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)])
    return train(model.to(memory_format=torch.channels_last), channels_last_images)


ACTIVATIONS = {
    "leaky_relu": lambda: nn.LeakyReLU(0.1),
    "leaky_relu_": lambda: nn.LeakyReLU(0.1, inplace=True),
    "elu": nn.ELU,
    "elu_": lambda: nn.ELU(inplace=True),
    "selu": nn.SELU,
    "hardswish": nn.Hardswish,
    "hardswish_": lambda: nn.Hardswish(inplace=True),
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.7),
    "relu6_": lambda: nn.ReLU6(inplace=True),
    "hardsigmoid": nn.Hardsigmoid,
    "mish": nn.Mish,
    "softplus": lambda: nn.Softplus(beta=2, threshold=1),
}


@workload
def other_activations():
    values = {}
    for name, activation in ACTIVATIONS.items():
        block = lambda: [nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), activation()]
        model = nn.Sequential(nn.Conv2d(3, 6, 1), *block(), *block(), nn.Conv2d(6, 2, 1))
        for key, value in train(model, images, steps=4).items():
            values[f"{name}.{key}"] = value
    return values


@workload
def resnet_under_autocast():
    return train(Autocast(resnet(inplace=False)), images)


@workload
def group_norm_under_autocast():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    return train(Autocast(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)]), images)


@workload
def max_pool_under_autocast():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)]
    return train(Autocast(*layers), images)


@workload
def infinite_values():
    """What a mask alone would turn into zeros."""
    values = {}
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))
    for step in range(STEPS):
        x = images()
        if step == STEPS - 1:
            x[0, 0, 0, 0] = float("inf")
        model.zero_grad()
        model(x).sum().backward()
        for name, parameter in model.named_parameters():
            values[f"{step}.{name}"] = parameter.grad.clone()
    return values


class Downsampling(nn.Module):
    """Of a residual network: the sum of two norms, and a sum with what a max-pool made."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = Residual(8, inplace=False)
        self.conv = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8))
        self.beside = nn.Sequential(nn.Conv2d(8, 8, 1, stride=2), nn.BatchNorm2d(8))
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        x = self.block(F.max_pool2d(self.stem(x), 3, 2, 1))
        return self.last(F.relu(self.conv(x) + self.beside(x)))


@workload
def downsampling():
    return train(Downsampling(), images)


@workload
def downsampling_channels_last():
    return train(Downsampling().to(memory_format=torch.channels_last), channels_last_images)


@workload
def instance_norm_and_leaky_relu():
    def block(inputs):
        return nn.Sequential(nn.Conv2d(inputs, 13, 3, padding=1), nn.InstanceNorm2d(13, affine=True), nn.LeakyReLU(0.1))

    return train(nn.Sequential(block(3), block(13), nn.InstanceNorm2d(13), nn.Conv2d(13, 2, 1)), images)


class Branches(nn.Module):
    """Both join in one tensor, which the next convolution saves."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.SiLU())
        self.right = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.last = nn.Sequential(nn.Conv2d(13, 13, 1), nn.GELU(), nn.Conv2d(13, 2, 1))

    def forward(self, x):
        return self.last(torch.cat([self.left(x), self.right(x)], 1))


@workload
def concatenation():
    return train(Branches(), images)


@workload
def concatenation_channels_last():
    return train(Branches().to(memory_format=torch.channels_last), channels_last_images)


@workload
def average_pooling():
    stem = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(3, 2, 1, True, False)]
    return train(nn.Sequential(*stem, nn.Conv2d(8, 4, 1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 2, 1)), images)


@workload
def upsampling():
    def block(mode):
        return nn.Sequential(nn.GELU(), nn.Upsample(scale_factor=2, mode=mode), nn.Conv2d(8, 8, 3, padding=1))

    return train(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), block("nearest"), block("bilinear")), images)


@workload
def bounded_relu():
    def block(inputs):
        return nn.Sequential(nn.Conv2d(inputs, 13, 3, padding=1), nn.BatchNorm2d(13), nn.ReLU6())

    return train(nn.Sequential(block(3), block(13), nn.Conv2d(13, 2, 1)), images)
