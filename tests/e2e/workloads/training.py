# SPDX-License-Identifier: Apache-2.0
"""What the workloads share: a few steps of training, written down."""

import torch


def train(model, inputs, loss_of, steps: int = 3, context=None, optimizer=None) -> dict:
    """Losses of `steps` steps, gradients of each, and the parameters and buffers at the end."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    written = {}
    for step in range(steps):
        optimizer.zero_grad()
        if context is None:
            loss = loss_of(model(*inputs))
        else:
            with context():
                loss = loss_of(model(*inputs))
        loss.backward()
        written[f"loss{step}"] = loss.detach().clone()
        for name, parameter in model.named_parameters():
            written[f"grad{step}.{name}"] = parameter.grad.clone()
        optimizer.step()
    for name, value in model.state_dict().items():
        written[f"final.{name}"] = value.clone()
    return written


def gradients(output, *leaves) -> dict:
    """Gradients of a scalar made of `output` (weighted, so that no two elements count alike)."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).reshape(output.shape)
    scalar = (output * weights.to(output.dtype)).sum()
    found = torch.autograd.grad(scalar, leaves)
    return {"output": output.detach().clone()} | {f"grad{i}": g.clone() for i, g in enumerate(found)}
