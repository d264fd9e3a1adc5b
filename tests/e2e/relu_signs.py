# SPDX-License-Identifier: Apache-2.0
"""A program: batch norms before ReLUs. Prints the sum of each norm's bias gradients, which depend on weights and the
ReLU's signs alone.

    relu_signs.py contiguous|channels_last|in_place|bfloat16|conv1d|linear|evaluation
"""

import sys

import torch
from torch import nn

case = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(0)
Conv, Norm, shape = nn.Conv2d, nn.BatchNorm2d, (8, 16, 18, 18)
if case == "conv1d":
    Conv, Norm, shape = nn.Conv1d, nn.BatchNorm1d, (8, 16, 300)
if case == "linear":
    Conv, Norm, shape = (lambda a, b, _: nn.Linear(a, b)), nn.BatchNorm1d, (512, 16)
layers = []
for inside, outside in ((16, 24), (24, 24), (24, 16)):
    layers += [Conv(inside, outside, 1 if case == "evaluation" else 3), Norm(outside), nn.ReLU(inplace=case == "in_place")]
model = nn.Sequential(*layers, Conv(16, 4, 1))
x = torch.randn(shape)
if case == "channels_last":
    model = model.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
if case == "bfloat16":
    model, x = model.bfloat16(), x.bfloat16()
if case == "evaluation":
    model.eval()
norm = model[-3]  # what comes down to it has passed no approximation
optimizer = torch.optim.SGD(model.parameters(), 0.0)
for step in range(6):
    optimizer.zero_grad(set_to_none=False)
    model(x).sum().backward()
    optimizer.step()
    print(norm.bias.grad.double().sum().item(), norm.bias.grad.double().square().sum().item())
    x = x + 0.1 * torch.randn_like(x)
