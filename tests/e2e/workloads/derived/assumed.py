# SPDX-License-Identifier: Apache-2.0
"""What a recipe takes for granted because autograd does not say it, and what then is otherwise in tensors of new sizes,
when comparisons of many sizes have proved the recipe for all."""

import torch
import torch.nn.functional as F

from workloads.registry import workload

SIZES = range(8, 28)  # 16 of them are enough


def gradients(loss, usual: dict, unusual: dict) -> dict:
    """Of a weight: for `usual` keywords with many sizes, then for `unusual` ones with two others."""
    weight, other = (torch.linspace(0.5, 1.5, 8).requires_grad_() for _ in range(2))
    values = {}
    for size, how in [*[(size, usual) for size in SIZES], (SIZES.stop, unusual), (SIZES.stop + 1, unusual)]:
        loss(size, weight, other, **how).backward()
        values[f"{size}.weight"], values[f"{size}.other"] = weight.grad.clone(), other.grad.clone()
        weight.grad = other.grad = None
    return values


@workload
def values_lie_in_another_order():
    """Only a view of the value is saved: what the value's own memory is like can be seen from that alone."""

    def loss(size, weight, other, transposed):
        x = torch.randn(6, size, 8).transpose(0, 1) if transposed else torch.randn(size, 6, 8)
        value = -(x * weight)
        weighted = value.unsqueeze(1) * other
        return (value.unbind(0)[-1] * 1.5).sin().sum() + weighted.square().mean()

    return gradients(loss, {"transposed": False}, {"transposed": True})


@workload
def pads_are_other_numbers():
    def loss(size, weight, other, by):
        value = (torch.randn(size, 8) * weight).tanh()
        return (F.pad(value, (1, 2), value=by) * F.pad(other, (2, 1), value=0.5)).square().mean()

    return gradients(loss, {"by": 0}, {"by": 1})
