# SPDX-License-Identifier: Apache-2.0
"""A program: prints how far a weight's gradient is off on average, relative to it. The weight's layer saves a smooth
function of what is saved already.

    mean_gradient.py cpu|cuda FUNCTION TYPE
"""

import sys

import torch
from torch import nn

device, function, type_name = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
dtype = getattr(torch, type_name)
first = nn.Linear(64, 256).to(device, dtype)
second = nn.Linear(128 if function == "gated" else 256, 8, bias=False).to(device, dtype)
third = nn.Linear(8, 8, bias=False).to(device, dtype)  # backward reads its input first, which is not encoded
x = torch.randn(64, 64).to(device, dtype) * 2


def activation(value):
    if function == "gated":
        gate, other = value.chunk(2, -1)
        return nn.functional.silu(gate) * other.sigmoid()
    return getattr(nn.functional, function)(value)


total = 0
STEPS, PROOF = 44, 4
for step in range(STEPS):
    value = activation(first(x))
    output = third(second(value))
    exact = value.detach().float().sum(0) * third.weight.detach().float()[:, 0].sum()
    del value
    output.sum().backward()
    if step >= PROOF:
        total = total + second.weight.grad[0].float()
    second.weight.grad = None
error = (total / (STEPS - PROOF) - exact) * exact.sign()
print((error.mean() / exact.abs().mean()).item())
