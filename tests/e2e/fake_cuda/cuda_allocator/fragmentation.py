# SPDX-License-Identifier: Apache-2.0
"""Trains models whose sequence lengths vary, on a device with a little more memory than what they use
at once; each seed is another model and another order of lengths. Prints for each seed the peak of
allocated bytes, whether it ran out of memory, and its losses.

    fragmentation.py [LIMIT…]

LIMIT: the device's bytes for seed 0, 1, …; without them there is plenty, which tells the peaks.
"""

import gc
import json
import random
import sys

import fakecuda
import torch

from figures import figures

SEEDS = 26
STEPS = 6
PLENTY = 2**30
fake = fakecuda.control()


def train(seed: int) -> list[str]:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    width = chance.choice([768, 1024, 1280])
    layers = [torch.randn(width, device="cuda").requires_grad_() for _ in range(chance.randint(4, 6))]
    losses = []
    for _ in range(STEPS):
        length = chance.randint(350, 1400)
        h = torch.ones(length, width, device="cuda")
        for layer in layers:
            h = torch.relu(h * layer + 0.1)
        loss = h.square().mean()
        loss.backward()
        with torch.no_grad():
            for layer in layers:
                layer -= 0.01 * layer.grad
                layer.grad = None
        losses.append(loss.item().hex())
        del h, loss
    return losses


def main():
    limits = [int(limit) for limit in sys.argv[1:]]
    train(0)
    gc.collect()
    gc.freeze()
    result = []
    for seed in range(SEEDS):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        fake.set_memory(limits[seed] if limits else PLENTY)
        losses = None
        try:
            losses = train(seed)
        except torch.OutOfMemoryError:
            pass
        peaks = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
        result.append({"peak": peaks[0], "reserved": peaks[1], "losses": losses})
    print(json.dumps({"seeds": result, "faults": fake.faults(), "figures": figures()}))


main()
