# SPDX-License-Identifier: Apache-2.0
"""Runs the kernels' machine code for an H100 without one, and holds what it issues against budgets.

usage: sass_budget --binary FILE --record FILE [--compiler VERSION] [--budgets FILE] [--update] [NAME...]

    --binary    the library of kernels as nvcc built it
    --record    the program that writes down what the engine launches (record_launches.cpp)
    --compiler  nvcc's version; skips when the budgets are another's
    --budgets   cases and what they may cost (default: budgets.json beside this file)
    --update    writes what was counted as the new budgets
    --opcodes   prints each opcode's share, too
    NAME        only cases whose name contains it

Counted are all instructions of all launches of a call, each once for every thread of a warp that issues it,
by element. What the kernels write must be the reference engine's bytes. The figures: docs/codecs.md.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from cases import record, run  # noqa: E402
from disassembly import NoTools, kernels_of  # noqa: E402
from machine import Program  # noqa: E402

SKIPPED = 77  # what ctest takes for a skip
SLACK = 1.01  # the budgets are rounded
HELD = ("instructions", "divisions", "moved", "requested", "shared cycles")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--compiler")
    parser.add_argument("--budgets", type=pathlib.Path, default=pathlib.Path(__file__).parent / "budgets.json")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--opcodes", action="store_true")
    parser.add_argument("names", nargs="*")
    return parser.parse_args()


def skip(reason):
    print(f"skipped: {reason}")
    return SKIPPED


def over_budget(figures, budget):
    """What of the figures exceeds the budget, as text."""
    return [
        f"{key} {figures[key]}, budget {budget[key]}"
        for key in HELD
        if key in budget and figures[key] > budget[key] * SLACK + 0.005
    ]


def write_budgets(path, budgets):
    lines = ",\n".join("    " + json.dumps(case) for case in budgets["cases"])
    head = json.dumps({k: v for k, v in budgets.items() if k != "cases"}, indent=2)[:-2]
    path.write_text(f'{head},\n  "cases": [\n{lines}\n  ]\n}}\n')


def main():
    args = arguments()
    budgets = json.loads(args.budgets.read_text())
    if args.compiler and not args.compiler.startswith(budgets["nvcc"] + "."):
        return skip(f"the budgets are for nvcc {budgets['nvcc']}, this is {args.compiler}")
    try:
        kernels = kernels_of(args.binary, [p for p in sys.path if p.endswith("site-packages")])
    except NoTools as reason:
        return skip(reason)
    programs = {name: Program(kernel) for name, kernel in kernels.items()}
    wanted = {c["name"]: c for c in budgets["cases"] if not args.names or any(n in c["name"] for n in args.names)}
    over = 0
    for case in record(args.record, wanted.values(), kernels):
        figures, opcodes = run(case, programs)
        entry = wanted[case.name]
        found = over_budget(figures, entry.get(case.direction, {}))
        over += len(found)
        print(f"{case.name:34} {case.direction} {json.dumps(figures)}", *(f"\n  OVER: {each}" for each in found))
        if args.opcodes:
            print("   ", {k: v for k, v in sorted(opcodes.items(), key=lambda kv: -kv[1]) if v >= 0.02})
        if args.update:
            entry[case.direction] = {key: figures[key] for key in HELD}
    if args.update:
        write_budgets(args.budgets, budgets)
        return 0
    print(f"{len(wanted)} cases, {over} figures over budget")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
