# SPDX-License-Identifier: Apache-2.0
"""A program: batch norms before ReLUs. Prints a digest of a norm's bias gradients by case, which depend on weights and
the ReLU's signs alone.
"""

import torch
from torch import nn

CASES = ["contiguous", "channels last", "in place", "bfloat16", "conv1d", "linear", "evaluation"]


def model_and_input(case):
    conv, norm, shape = nn.Conv2d, nn.BatchNorm2d, (8, 16, 18, 18)
    if case == "conv1d":
        conv, norm, shape = nn.Conv1d, nn.BatchNorm1d, (8, 16, 300)
    if case == "linear":
        conv, norm, shape = (lambda a, b, _: nn.Linear(a, b)), nn.BatchNorm1d, (512, 16)
    layers = []
    for inside, outside in ((16, 24), (24, 24), (24, 16)):
        layers += [conv(inside, outside, 3), norm(outside), nn.ReLU(inplace=case == "in place")]
    model, x = nn.Sequential(*layers, conv(16, 4, 1)), torch.randn(shape)
    if case == "channels last":
        model, x = (it.to(memory_format=torch.channels_last) for it in (model, x))
    if case == "bfloat16":
        model, x = model.bfloat16(), x.bfloat16()
    return model.train(case != "evaluation"), x


torch.set_num_threads(1)
for case in CASES:
    torch.manual_seed(0)
    model, x = model_and_input(case)
    bias = model[-3].bias  # of the last norm: what comes down to it has passed no approximation
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    for step in range(6):
        optimizer.zero_grad(set_to_none=True)
        model(x).sum().backward()
        optimizer.step()
        print(case, bias.grad.sum().item(), bias.grad.square().sum().item())
        x = x + 0.1 * torch.randn_like(x)
