# SPDX-License-Identifier: Apache-2.0
"""Programs for a lossy policy: what must be exact all the same, and what may only come close."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads.models import Block, ConvNet, cross_entropy
from workloads.registry import workload
from workloads.training import gradients


def only(function) -> dict:
    """The gradient through one operator whose operands nobody but autograd keeps. What surrounds it
    saves nothing."""
    torch.manual_seed(5)
    x = torch.randn(4, 8, 32, 32, requires_grad=True)
    output = function((x * 1.5).contiguous()) * 1.0
    # Later saves give Cinch the moment at which to look again at what it holds.
    other = torch.randn(64, 64, requires_grad=True)
    for _ in range(3):
        output = output + 0.0 * (other * 2).cos().sum()
    return gradients(output, x)


@workload
def sign_and_mask_operators():
    """One bit an element says all that these operators' backward wants to know."""
    cases = {
        "relu": F.relu,
        "relu_inplace": lambda t: F.relu_(t),
        "leaky_relu": lambda t: F.leaky_relu(t, 0.1),
        "relu6": F.relu6,
        "hardtanh": F.hardtanh,
        "dropout": lambda t: F.dropout(t, 0.3),
        "where": lambda t: torch.where(t.detach() > 0, t, -t),
        "masked_fill": lambda t: t.masked_fill(t.detach() > 0, 0.0),
    }
    return {f"{name}.{key}": value for name, case in cases.items() for key, value in only(case).items()}


@workload
def pooling_operators():
    """Backward reads no value of a pool's input, and an index needs few bits."""
    cases = {
        "max": lambda t: F.max_pool2d(t, 2),
        "max_overlapping": lambda t: F.max_pool2d(t, 3, stride=2, padding=1),
        "max_channels_last": lambda t: F.max_pool2d(t.to(memory_format=torch.channels_last), 2),
        "max_after_relu": lambda t: F.max_pool2d(F.relu(t), 2),
        "average": lambda t: F.avg_pool2d(t, 2),
        "adaptive_average": lambda t: F.adaptive_avg_pool2d(t, 4),
    }
    return {f"{name}.{key}": value for name, case in cases.items() for key, value in only(case).items()}


@workload
def statistics_and_indices():
    """Small vectors and integer operands of approximated operators are never approximated."""
    torch.manual_seed(6)
    weight = torch.randn(1000, 16, requires_grad=True)
    tokens = torch.randint(1000, (64, 64))
    return gradients(F.embedding(tokens + 0, weight).sum(dim=1).cos(), weight)


def first_step(model, x, loss_of) -> dict:
    """The loss, which Cinch must not change, and where the user's random stream stands after a step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = loss_of(model(x))
    loss.backward()
    optimizer.step()
    return {"loss": loss.detach(), "generator": torch.get_rng_state(), "next": torch.randn(4)}


@workload
def first_step_of_a_convolutional_net():
    return first_step(ConvNet(dropout=0.5), torch.randn(8, 3, 64, 64), cross_entropy())


@workload
def first_step_of_a_transformer():
    model = nn.Sequential(Block(dropout=0.3), Block(dropout=0.3))
    return first_step(model, torch.randn(8, 64, 64), lambda y: y.square().mean())


def first_gradient(model, x, loss_of) -> dict:
    loss_of(model(x)).backward()
    return {"gradient": torch.cat([p.grad.flatten() for p in model.parameters()])}


@workload
def gradient_of_a_convolutional_net():
    return first_gradient(ConvNet(dropout=0), torch.randn(16, 3, 64, 64), cross_entropy())


@workload
def gradient_of_a_transformer():
    model = nn.Sequential(*[Block(dropout=0) for _ in range(3)])
    return first_gradient(model, torch.randn(8, 64, 64), lambda y: F.mse_loss(y, torch.ones_like(y)))


def losses(model, x, loss_of, steps: int) -> dict:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    seen = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return {"losses": torch.tensor(seen)}


@workload
def training_of_a_convolutional_net():
    return losses(ConvNet(dropout=0), torch.randn(20, 3, 32, 32), cross_entropy(), steps=30)


@workload
def training_of_a_transformer():
    x = torch.randn(8, 64, 64)
    model = nn.Sequential(Block(dropout=0), Block(dropout=0))
    return losses(model, x, lambda y: F.mse_loss(y, x.roll(1, dims=1)), steps=30)
