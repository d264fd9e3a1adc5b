#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of a cached allocate + free, counted by callgrind, against the golden numbers.

    tests/bench/allocator_instructions.py --bench build/bin/allocator_bench --golden FILE [--update]

The difference of two runs with different numbers of pairs leaves the start out. The golden file holds
instructions a pair by block size; more than `tolerance` above fails, and so does as much below, since
then the number is stale: --update writes what was counted.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

FEW, MANY = 1_000, 21_000


def instructions(bench, pairs, size):
    """All instructions of a run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", bench, "--pairs", str(pairs), size]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", required=True)
    parser.add_argument("--golden", type=pathlib.Path, required=True)
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    golden = json.loads(args.golden.read_text())
    tolerance = golden["tolerance"]
    wrong = False
    for size, expected in golden["instructions_per_pair"].items():
        few, many = (instructions(args.bench, pairs, size) for pairs in (FEW, MANY))
        counted = (many - few) / (MANY - FEW)
        golden["instructions_per_pair"][size] = round(counted)
        off = abs(counted - expected) > tolerance * expected
        wrong = wrong or off
        print(f"{size:>10} bytes: {counted:.0f} instructions, golden {expected}{'  <-- differs' if off else ''}")
    if args.update:
        args.golden.write_text(json.dumps(golden, indent=2) + "\n")
        return 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
