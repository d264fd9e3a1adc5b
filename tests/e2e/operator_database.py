# SPDX-License-Identifier: Apache-2.0
"""Trains through each operator of PyTorch's own database (OpInfo), on its samples of operands, and prints a line of JSON
for each: what was computed, and the errors that PyTorch raised.

    python -m operator_database
"""

import json
import random
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import live
from random_programs.training import digest, stash_bytes, text_of

STEPS = 2
MOST_SAMPLES = 3
TYPES = (torch.float32, torch.bfloat16)
# With a least-squares solution comes what its memory held before.
LEFT_OUT = {"linalg.lstsq"}


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements as real numbers."""
    dense = tensor if tensor.layout == torch.strided else tensor.to_dense()
    return torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense


def gradients(op, sample, twice: bool) -> list[torch.Tensor | None]:
    """Of operands that something else also saves, as a copy; and of the operator's gradients, if `twice`."""
    leaves, losses = [], []

    def computed(operand):
        if not isinstance(operand, torch.Tensor) or not operand.requires_grad:
            return operand
        leaves.append(operand.detach().clone().requires_grad_())
        value = leaves[-1] * 1.0
        losses.append(numbers(value).sin().sum().double())
        return value.clone()

    operand, others, named = tree_map(computed, (sample.input, sample.args, sample.kwargs))
    results = sample.output_process_fn_grad(op(operand, *others, **named))
    for each in tree_leaves(results):
        if isinstance(each, torch.Tensor) and each.requires_grad:
            losses.append((numbers(each).sin() * numbers(each)).sum().double())
    if not losses:
        return []
    loss = sum(losses)
    if twice:
        of_loss = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        loss = loss + sum(numbers(each).sin().sum().double() for each in of_loss if each is not None)
    loss.backward()
    return [loss, *[each.grad for each in leaves]]


def train(op, of_type: torch.dtype, twice: bool) -> list[str]:
    """A digest, or an error, of each step and sample."""
    said = []
    for step in range(STEPS):
        for generator in (torch.manual_seed, random.seed, numpy.random.seed):
            generator(step)
        for _, sample in zip(range(MOST_SAMPLES), op.sample_inputs("cpu", of_type, requires_grad=True)):
            try:
                said.append(digest([each if each is None else numbers(each) for each in gradients(op, sample, twice)]))
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                said.append(text_of(error))
    return said


def main():
    warnings.filterwarnings("ignore")
    for op in op_db:
        if not op.supports_autograd or op.name in LEFT_OUT:
            continue
        for of_type in TYPES:
            if of_type not in op.supported_backward_dtypes("cpu"):
                continue
            twice = op.supports_gradgrad and of_type == torch.float32
            said = train(op, of_type, twice)
            print(json.dumps({"operator": f"{op.formatted_name} of {of_type}", "said": said}), flush=True)
    print(json.dumps({"stash_bytes": stash_bytes(), "taken": live.taken()}))


main()
