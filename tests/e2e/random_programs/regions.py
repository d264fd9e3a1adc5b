# SPDX-License-Identifier: Apache-2.0
"""What instructions of a random program may run within."""

import contextlib

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint


def in_context(context):
    """@param context Of the device"""

    def run(instructions, env, device, execute):
        with context(device):
            execute(instructions, env)

    return run


def recomputed(reentrant: bool):
    """Computes nothing but the values that the rest of the program has a name for; backward does the rest again."""

    def run(instructions, env, device, execute):
        made = [each.result for each in instructions]
        dropped = {number for each in instructions for number in each.drops}
        needed = sorted({number for each in instructions for number in each.operands} - set(made))
        given = [number for number in made if number not in dropped]

        def compute(*tensors):
            inside = dict(zip(needed, tensors))
            execute(instructions, inside)
            return tuple(inside[number] for number in given)

        env.update(zip(given, checkpoint(compute, *[env[number] for number in needed], use_reentrant=reentrant)))
        for number in dropped:
            env.pop(number, None)

    return run


REGIONS = {
    "checkpoint": recomputed(reentrant=False),
    "reentrant checkpoint": recomputed(reentrant=True),
    "autocast": in_context(lambda device: torch.autocast(device, torch.bfloat16)),
    "no_grad": in_context(lambda device: torch.no_grad()),
    "saved_tensors_hooks": in_context(lambda device: saved_tensors_hooks(torch.clone, lambda x: x)),
    None: in_context(lambda device: contextlib.nullcontext()),
}
