# SPDX-License-Identifier: Apache-2.0
"""Sums, products and functions of single values."""

import torch
from torch import nn

from workloads.derived.models import STEPS, sequences, train
from workloads.registry import workload


@workload
def conversions_to_wider_types():
    """Only what a value was converted to is saved."""

    class Widens(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 48).bfloat16(), nn.Linear(48, 24).bfloat16()

        def forward(self, x):
            y = self.first(x.bfloat16())
            size = y.float().square().mean(-1, keepdim=True)
            return self.last(0.5 * y + 2).float() + size

    return train(nn.Sequential(Widens(), Widens()), sequences)


@workload
def quotients_and_differences():
    class Standardized(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 32), nn.Linear(32, 5)

        def forward(self, x):
            x = self.first(x)
            centered = x - x.mean(-1, keepdim=True).exp()
            return self.last(centered / (centered.square().mean(-1, keepdim=True) + 1).sqrt())

    return train(Standardized(), sequences)


@workload
def sums_with_numbers():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.value = nn.Linear(24, 24), nn.Linear(24, 24)

        def forward(self, x):
            z, y = self.gate(x).sigmoid(), self.value(x)
            return (1 - z) * y.tanh() + (y.tanh() - 0.3) * z + (y.exp() + 1e-3) * z

    return train(Gates(), sequences)


@workload
def sums_in_place():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.value = nn.Linear(24, 24), nn.Linear(24, 24)

        def forward(self, x):
            z, y = self.gate(x).sigmoid(), self.value(x).relu()
            up, down = 2 * z, 3 * z
            up += 0.25
            down -= 1
            return up * y + down * y

    return train(Shifted(), sequences)


@workload
def another_number_in_each_step():
    linear, values = nn.Linear(24, 24), {}
    for step in range(2 * STEPS):
        y = linear(sequences()).tanh()
        loss = ((y + 0.1 * step) * (y - torch.rand(()).item())).sum()
        values[f"{step}"] = torch.autograd.grad(loss, linear.weight)[0]
    return values


def train_on_derivatives(activation: type[nn.Module], dtype: torch.dtype) -> dict:
    """A network whose loss has its first and second derivatives."""
    model = nn.Sequential(nn.Linear(3, 40), activation(), nn.Linear(40, 40), activation(), nn.Linear(40, 1)).to(dtype)

    def loss(x):
        (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return first.square().mean() + second.square().mean()

    values = {}
    for step in range(STEPS):
        model.zero_grad()
        loss(torch.rand(50, 3, dtype=dtype, requires_grad=True)).backward()
        values |= {f"{step}.{name}": each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return values


@workload
def derivatives_of_tanh():
    return train_on_derivatives(nn.Tanh, torch.float32)


@workload
def derivatives_of_sigmoid():
    return train_on_derivatives(nn.Sigmoid, torch.float32)


@workload
def derivatives_in_float64():
    return train_on_derivatives(nn.Tanh, torch.float64)


@workload
def norms_in_float64():
    """Kernels of PyTorch's compute in float64, those of ours do not."""
    layers = [nn.Linear(24, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 5)]
    return train(nn.Sequential(*layers).double(), lambda: torch.randn(51, 24, dtype=torch.float64))


class Sine(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.sin(3 * self.linear(x))


@workload
def sines():
    """What the next layer saves is the sine of what the sine saved. MKL's last bit depends on its threads."""
    return train(nn.Sequential(Sine(8, 64), Sine(64, 64), Sine(64, 64), nn.Linear(64, 5)), lambda: torch.rand(40, 8))


@workload
def bells():
    """exp(-x²) of a distance that is saved: a kernel of Gaussian processes."""

    class Kernel(nn.Linear):
        def forward(self, x):
            points = super().forward(x)
            return torch.exp(-0.5 * torch.cdist(points, points + 1).square())

    return train(nn.Sequential(Kernel(6, 6), nn.Linear(48, 1)), lambda: torch.rand(48, 6))
