#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What telemetry costs, as the share of a training's CPU time that is spent in it.

    .venv/bin/python tests/bench/telemetry_share.py [--build build] [--rate 499] [--json FILE] [-- PROGRAM ARGUMENTS…]

Whole steps with and without telemetry differ by far less than they do from run to run
(training_cost.py's variant "default, untold"). So one run of the CPU demo is sampled by perf (its clock, both threads), with the stack
of each sample, and those are counted that have one of telemetry's functions on it: whatever these call, in
the C library or the kernel, is theirs. A share of p in n samples is right to about 2 sqrt(p / n), printed
as ±. It does not depend on what else the machine does.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The first that a sample's stack matches has it.
PARTS = {
    "segment and control": r"Stash::publish\b|publish_(boundary|rows|device)|serve_control|publish_event",
    "series and events of the report": r"EntryLists::note_change|Timeline::|resident_bytes",
    "entries of the report, module names": r"EntryRows::|note_module|name_modules|(find|own)_parameter|run_task",
}


def samples(data):
    """The stacks, each as one text."""
    script = subprocess.run(
        ["perf", "script", "-i", data, "--no-inline", "-F", "comm,ip,sym"], capture_output=True, text=True, check=True
    ).stdout
    return [stack for stack in script.split("\n\n") if stack.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rate", type=int, default=499)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("program", nargs="*", default=[str(ROOT / "examples/digits_cnn.py"), "--epochs", "1"])
    options = parser.parse_args()
    env = {name: value for name, value in os.environ.items() if not name.startswith("CINCH_")}
    env |= {"OMP_WAIT_POLICY": "PASSIVE", "CINCH_POLICY": "division"}
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        preload = f"LD_PRELOAD={options.build.resolve() / 'lib/libcinch.so'}"
        subprocess.run(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(options.rate), "--call-graph", "dwarf,4096",
             "-o", data, "--", "env", preload, f"CINCH_REPORT={folder}/report.json", sys.executable, *options.program],
            env=env, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        stacks = samples(data)
    counts = dict.fromkeys(PARTS, 0)
    for stack in stacks:
        for part, pattern in PARTS.items():
            if re.search(pattern, stack):
                counts[part] += 1
                break
    ours = sum("cinch::" in stack for stack in stacks)
    total = len(stacks)
    result = {"samples": total, "in_cinch": ours / total, "parts": {}}

    def line(name, count):
        share, error = count / total, 2 * math.sqrt(max(count, 1)) / total
        print(f"{name:40} {100 * share:7.3f} % ± {100 * error:.3f}")
        return {"share": share, "error": error}

    print(f"{total} samples; Cinch as a whole {100 * ours / total:.1f} %")
    for part, count in counts.items():
        result["parts"][part] = line(part, count)
    result["telemetry"] = line("telemetry and report (target 0.5 %)", sum(counts.values()))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
