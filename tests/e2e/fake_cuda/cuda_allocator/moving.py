# SPDX-License-Identifier: Apache-2.0
"""Tensors of random sizes come and go while the host runs ahead: nothing waits for the device until the end.
Each is computed from two others. Prints the sums of all of them."""

import json
import random

import fakecuda
import torch

from figures import figures

STEPS = 160
LIVE = 14
fake = fakecuda.control()


def main():
    chance = random.Random(3)
    side = torch.cuda.Stream()
    live, sums = [], []
    for i in range(STEPS):
        tensor = torch.full((chance.randint(600_000, 3_000_000),), float(i), device="cuda")
        for other in chance.sample(live, min(2, len(live))):
            length = min(len(tensor), len(other))
            tensor[:length] += 0.5 * other[:length]
        if i % 8 == 0:
            with torch.cuda.stream(side):
                side.wait_stream(torch.cuda.default_stream())
                sums.append(tensor.sum())
                tensor.record_stream(side)
        sums.append(tensor.sum())
        live.append(tensor)
        if len(live) > LIVE:
            # Not the oldest: what is free then lies between what is not.
            del live[chance.randrange(len(live) - 1)]
    del tensor, other
    torch.cuda.synchronize()
    result = {"sums": [value.item().hex() for value in sums], "faults": fake.faults(), "figures": figures()}
    live.clear()
    sums.clear()
    torch.cuda.empty_cache()
    print(json.dumps(result | {"left": [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]}))


main()
