# SPDX-License-Identifier: Apache-2.0
"""Trains a model of peers/program.py, a step for each line of its standard input. training_cost.py runs it.

    steps_on_demand.py MODEL < LINES

Prints a line of JSON for each step, with its seconds and loss, and one at the end, with the growth of the process's peak
RSS after its imports.
"""

import json
import sys
import time

import program
import torch
from saved_bytes import memory_bytes


def main():
    after_imports = memory_bytes("VmRSS")
    torch.manual_seed(0)
    task = program.TASKS[sys.argv[1]](0)
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=task.rate)
    for _ in sys.stdin:
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = task.loss(task.model)
        loss.backward()
        optimizer.step()
        print(json.dumps({"loss": loss.item(), "seconds": time.perf_counter() - start}), flush=True)
    print(json.dumps({"growth": memory_bytes("VmHWM") - after_imports}), flush=True)


if __name__ == "__main__":
    main()
