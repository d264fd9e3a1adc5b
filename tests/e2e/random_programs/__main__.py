# SPDX-License-Identifier: Apache-2.0
"""Trains random programs on $E2E_DEVICE, and prints a line of JSON for each.

    python -m random_programs FIRST COUNT
    python -m random_programs --together THREADS FIRST COUNT
    python -m random_programs --failing LIBRARY FIRST COUNT
    python -m random_programs --show NUMBER [WITHOUT…]

The second trains as many at the same time, without their instructions that draw random numbers. The third trains each
several times before, with one of the core's allocations failing (failing_allocations.py), and lists those that showed.
The fourth shows one as text first, without the instructions of these results and all that needs them.
"""

import concurrent.futures
import gc
import json
import os
import sys
import warnings

from failing_allocations import FailingAllocations
from random_programs.failing import failures_that_show
from random_programs.program import Program, make
from random_programs.training import Training, stash_bytes


def train(program: Program) -> dict:
    return {"number": program.seed, **Training(program, os.environ.get("E2E_DEVICE", "cpu")).train()}


def train_one_by_one(programs):
    for program in programs:
        print(json.dumps(train(program) | {"stash_bytes": stash_bytes()}), flush=True)


def train_failing(library: str, programs):
    allocations = FailingAllocations(library)
    for program in programs:
        shown = failures_that_show(allocations, lambda program=program: train(program), program.seed)
        print(json.dumps(train(program) | {"stash_bytes": stash_bytes(), "shown": shown}), flush=True)


def train_together(threads: int, programs):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(train, programs))
    left = stash_bytes()
    for each in done:
        print(json.dumps(each | {"stash_bytes": left}))


def main():
    warnings.filterwarnings("ignore")
    gc.freeze()
    option, *values = sys.argv[1:]
    if option == "--show":
        program = make(int(values[0]))
        for result in values[1:]:
            program = program.without(int(result))
        print(program)
        return train_one_by_one([program])
    first, count = map(int, sys.argv[-2:])
    programs = (make(number) for number in range(first, first + count))
    if option == "--together":
        train_together(int(values[0]), [program.without_random_numbers() for program in programs])
    elif option == "--failing":
        train_failing(values[0], programs)
    else:
        train_one_by_one(programs)


main()
