# SPDX-License-Identifier: Apache-2.0
"""What the workloads share: a few steps of training, written down."""

import contextlib
import hashlib

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


def digest(tensor) -> str:
    """A text that differs when any bit of the tensor does. Outcomes of whole models stay small with it."""
    return hashlib.sha256(tensor.detach().contiguous().flatten().view(torch.uint8).numpy()).hexdigest()


def train_long(model, inputs, loss_of, optimizer, steps: int = 20, context=contextlib.nullcontext) -> dict:
    """Losses of `steps` steps, and digests of the last step's gradients and of all parameters and buffers.

    The batch is rotated between the steps, so that they differ.
    """
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        with context():
            loss = loss_of(model(*(value.roll(step, dims=0) for value in inputs)), step)
        loss.backward()
        losses.append(loss.detach().clone())
        if step == steps - 1:
            gradients_at_end = {f"grad.{name}": digest(p.grad) for name, p in model.named_parameters()}
        optimizer.step()
    final = {f"final.{name}": digest(value) for name, value in model.state_dict().items()}
    return {"losses": torch.stack(losses)} | gradients_at_end | final


def gradients(output, *leaves) -> dict:
    """Gradients of a scalar made of `output` (weighted, so that no two elements count alike)."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).reshape(output.shape)
    scalar = (output * weights.to(output.dtype)).sum()
    found = torch.autograd.grad(scalar, leaves)
    return {"output": output.detach().clone()} | {f"grad{i}": g.clone() for i, g in enumerate(found)}
