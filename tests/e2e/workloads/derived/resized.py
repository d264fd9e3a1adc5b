# SPDX-License-Identifier: Apache-2.0
"""What operators make of a value by padding, pooling, stacking and the like: of other sizes."""

import torch
from torch import nn

from workloads.derived.models import images, sequences, train
from workloads.registry import workload


def volumes():
    return torch.randn(2, 3, 8, 6, 10)


def scaled_volumes(layout):
    def block(inputs, mode):
        return nn.Sequential(
            nn.Conv3d(inputs, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(8, 8, 3, padding=1), nn.InstanceNorm3d(8, affine=True), nn.LeakyReLU(),
            nn.Upsample(scale_factor=2, mode=mode), nn.AvgPool3d(3, 1, 1),
        )  # fmt: skip

    model = nn.Sequential(block(3, "trilinear"), block(8, "nearest"), nn.Conv3d(8, 2, 1))
    return train(model.to(memory_format=layout), lambda: volumes().contiguous(memory_format=layout))


@workload
def volumes_are_pooled_and_grow():
    return scaled_volumes(torch.contiguous_format)


@workload
def volumes_are_pooled_and_grow_channels_last():
    return scaled_volumes(torch.channels_last_3d)


@workload
def gated_sounds():
    def block():
        gate = [nn.Conv1d(24, 48, 3), nn.GLU(1), nn.ConstantPad1d((2, 0), 0.0)]
        return nn.Sequential(*gate, nn.Conv1d(24, 24, 1), nn.GELU(), nn.Upsample(17, mode="linear"))

    return train(nn.Sequential(block(), block(), nn.Conv1d(24, 3, 1)), lambda: sequences().transpose(1, 2))


@workload
def reflected_images():
    def block(inputs, pad):
        return nn.Sequential(pad(1), nn.Conv2d(inputs, 8, 3), nn.BatchNorm2d(8), nn.PReLU(8))

    pads = nn.ReflectionPad2d, nn.ReplicationPad2d, nn.ZeroPad2d
    model = nn.Sequential(*[block(8 if i else 3, pad) for i, pad in enumerate(pads)])
    return train(nn.Sequential(model, nn.Conv2d(8, 2, 1)), images)


@workload
def shuffled_pixels():
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.SiLU(), nn.PixelShuffle(2), nn.Conv2d(4, 4, 3, padding=1),
                          nn.CELU(1.5), nn.PixelUnshuffle(2), nn.Conv2d(16, 2, 1))  # fmt: skip
    return train(model, images)


@workload
def stacked_and_repeated():
    """Functions of one value, each a slice of what a linear layer reads."""

    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.mix, self.last = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 5)

        def forward(self, x):
            y = self.first(x).tanh()
            mixed = self.mix(torch.stack([y, -y, y.clamp(-0.5, 0.25), y.abs()], 1))
            return self.last(mixed.sigmoid().repeat(2, 1, 1, 1))

    return train(Stacked(), sequences)


@workload
def stacked_at_the_end():
    class Ends(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 24), nn.Linear(2, 5)

        def forward(self, x):
            y = self.first(x).tanh()
            return self.last(torch.stack([-y, y.clamp(max=0.25)], -1))

    return train(Ends(), sequences)


@workload
def weighted_sums():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = nn.Linear(24, 24), nn.Linear(24, 24), nn.Linear(24, 5)

        def forward(self, x):
            y, z = self.first(x).tanh(), self.second(x).sigmoid()
            return self.last(torch.add(y, z, alpha=0.3)) + self.last(torch.sub(z, y, alpha=2)) + self.last(torch.addcmul(y, y, z, value=0.7))

    return train(Weighted(), sequences)


@workload
def multiplied_by_numbers_of_the_core():
    """A number of C++'s, as attention written by PyTorch itself has it, is no tensor."""

    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 24), nn.Linear(24, 5)

        def forward(self, x):
            y = self.first(x).tanh()
            return self.last(torch.ops.aten.mul.Scalar(y, 0.3)) + self.last(torch.ops.aten.div.Scalar(y, 3))

    return train(Products(), sequences)
