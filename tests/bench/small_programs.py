#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What small programs pay for Cinch: CPU time plainly and under `cinch run`.

    .venv/bin/python tests/bench/small_programs.py [--build build] [--programs NAME …] [--pairs 9] [--json FILE]

A program runs plainly and under `cinch run`, pair after pair, each pair in the order opposite to the last one's. Its
time is the user and system time of all of its processes, `cinch` itself included: other work on the machine disturbs
that less than wall time. Differences and ratios are taken within a pair; the table shows medians.

Rows, from the cheapest: `/bin/true`, which shows the launcher's own cost; `import torch`, to which the start of the
core and the end of the process add; then each program of the zoo ended after its first optimizer step, and whole.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import child_run

ROOT = pathlib.Path(__file__).resolve().parents[2]
ZOO = ROOT / "tests/zoo/programs"

# Runs the program in sys.argv[2] and ends it after sys.argv[1] steps of its optimizers.
FIRST_STEPS = """
import runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
left = int(sys.argv[1])
def count(*unused):
    global left
    left -= 1
    if left == 0:
        sys.exit()
register_optimizer_step_post_hook(count)
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def commands(programs: list[str]) -> dict[str, list[str]]:
    rows = {"/bin/true": ["/bin/true"], "import torch": [sys.executable, "-c", "import torch"]}
    for name in programs:
        file = str(ZOO / f"{name}.py")
        rows[f"{name}, 1 step"] = [sys.executable, "-c", FIRST_STEPS, "1", file]
        rows[name] = [sys.executable, file]
    return rows


def cpu_seconds(command: list[str], folder: str) -> float:
    """User and system seconds of the command and of the processes that it waited for."""
    environment = child_run.clean_environment() | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ZOO)}
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"small_programs: exit status {process.returncode}: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime


def compare(command: list[str], launcher: list[str], pairs: int) -> dict[str, float]:
    """Medians over the pairs."""
    plain, under = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            order = [(plain, command), (under, launcher + command)]
            for seconds, words in order if pair % 2 == 0 else reversed(order):
                seconds.append(cpu_seconds(words, folder))
    return {
        "plain_seconds": statistics.median(plain),
        "cinch_seconds": statistics.median(under),
        "added_seconds": statistics.median(b - a for a, b in zip(plain, under)),
        "ratio": statistics.median(b / a if a > 0 else 1 for a, b in zip(plain, under)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--programs", nargs="*", default=["policy_gradient", "cnn_tanh_avgpool"], metavar="NAME")
    parser.add_argument("--policy", default="default")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    args = parser.parse_args()
    launcher = [str(args.build.resolve() / "bin/cinch"), "run", "--strict", "--policy", args.policy, "--"]
    results = {}
    print(f"{'program':30} {'plain s':>8} {'cinch s':>8} {'added ms':>9} {'ratio':>6}")
    for name, command in commands(args.programs).items():
        row = results[name] = compare(command, launcher, args.pairs)
        print(
            f"{name:30} {row['plain_seconds']:8.3f} {row['cinch_seconds']:8.3f}"
            f" {row['added_seconds'] * 1e3:9.1f} {row['ratio']:6.3f}",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
