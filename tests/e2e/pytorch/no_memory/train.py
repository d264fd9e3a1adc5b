# SPDX-License-Identifier: Apache-2.0
"""Trains a small network again and again, while one allocation of the core's fails: the first, the second, ...

    train.py LIBRARY MODE STOP EXACT

MODE "cold": each in a forked process that has saved nothing before; "warm": in one process that trains already. EXACT:
"1" where the gradients have to be the same bits.
"""

import gc
import os
import sys
import traceback

import torch
import torch.nn.functional as F

import live
from failing_allocations import NEVER, FailingAllocations, says_so

library, mode, stop, exact = sys.argv[1:]
allocations = FailingAllocations(library)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


def forward(weights, x):
    a, b, c = weights
    y = torch.maximum(F.conv2d(x, a, padding=1), x.new_full((8, 32, 32), 0.1))
    y = F.relu(y - y.amax((2, 3), keepdim=True) + 1)
    y = F.hardtanh(F.max_pool2d(y, 2) @ b)
    y = Squared.apply(F.gelu(y) * 1.5)
    y = F.layer_norm(y, (16,)).flatten(1)
    return F.log_softmax(F.dropout(y, 0.25) @ c, dim=1)


def train():
    """Two steps. Only backward may say that there is no memory."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    shapes = [(8, 3, 3, 3), (16, 16), (2048, 10)]
    weights = [(torch.randn(s, generator=generator) * 0.1).requires_grad_() for s in shapes]
    x = torch.randn(4, 3, 32, 32, generator=generator)
    refused = False
    for _ in range(2):
        loss = forward(weights, x).square().mean()
        try:
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            assert says_so(error), error
            refused = True
            for weight in weights:
                weight.grad = None
        del loss
    return refused, [weight.grad for weight in weights]


def check(number):
    """Trains with that allocation failing, and again without. Returns how many there were."""
    allocations.fail(number)
    print("number", number, flush=True)
    refused, first = train()
    n = allocations.stop()
    gc.collect()
    refused_again, second = train()
    assert not refused_again, number
    for found in (second,) if refused else (first, second):
        assert all(grad.isfinite().all() for grad in found), number
        if exact == "1":
            assert all(torch.equal(a, b) for a, b in zip(second, found)), number
    left = live.stash_bytes_in_the_end()
    assert left == 0, f"{number}: {left} bytes stay"
    return n


def in_child(work) -> bool:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except Exception:
            traceback.print_exc()
        os._exit(status)
    return os.waitpid(child, 0)[1] == 0


torch.set_num_threads(1)
gc.freeze()  # modules' objects: each collection would look through them
if mode == "warm":
    train()
    for number in range(1, min(int(stop), check(NEVER)) + 1):
        check(number)
else:
    failed = [number for number in range(1, int(stop) + 1) if not in_child(lambda number=number: check(number))]
    if failed:
        sys.exit(f"failed: {failed}")
