#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a saved tensor costs under Cinch, codec time aside, against the same program without it.

    .venv/bin/python tests/bench/hook_cost.py [--build build] [--rounds 9] [--json FILE]

Three variants of one program run in turn, round after round, each in a process of its own; a
difference is taken within a round, and the median over the rounds is printed:

* plain: no preload;
* declined: preloaded, every tensor smaller than the policy's min_bytes;
* taken: preloaded, min_bytes 0, a policy that keeps what it takes: all of the stash, no codec.

The program is a chain of `exp`, each of which saves its 4x4 result; that result becomes solely the
stash's when the next one replaces it, as in a real forward. The inert cost, /bin/true with and
without LD_PRELOAD, is paired in the same way.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import sys, time, torch
torch.set_num_threads(1)
w = torch.zeros(4, 4, requires_grad=True)
def chain(n=100):
    y = w
    for _ in range(n):
        y = y.exp()
    return y
def sample(repeats=100):
    start = time.perf_counter()
    for _ in range(repeats):
        chain()
    return (time.perf_counter() - start) / repeats / 100 * 1e6
for _ in range(100):
    chain()
chain().sum().backward()
chain().sum().backward()
chain().sum().backward()
held = [chain() for _ in range(int(sys.argv[1]) // 100)]  # entries that live on
print(min(sample() for _ in range(9)))
"""

LIVE_ENTRIES = (1_000, 10_000, 100_000)

KEEP_ALL = {
    "version": 1,
    "policy": "division",
    "min_bytes": 0,
    "rules": [{"match": {"op": "*"}, "keep": True}],
    "preset_rules": False,
}


def microseconds_per_save(environment, live_entries=0):
    """Runs PROGRAM under `environment`; microseconds of one `exp` that saves its result."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(live_entries)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(run.stdout)


def milliseconds_of_true(environment, runs=200):
    """Mean wall time of /bin/true under `environment`."""
    env = {**os.environ, **environment}
    start = time.perf_counter()
    for _ in range(runs):
        subprocess.run(["/bin/true"], env=env, check=True)
    return (time.perf_counter() - start) / runs * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    preload = str((options.build / "lib" / "libcinch.so").resolve(strict=True))
    with tempfile.TemporaryDirectory() as folder:
        keep_all = pathlib.Path(folder) / "keep-all.json"
        keep_all.write_text(json.dumps(KEEP_ALL))
        variants = {
            "plain": {},
            "declined": {"LD_PRELOAD": preload, "CINCH_POLICY": "division"},
            "taken": {"LD_PRELOAD": preload, "CINCH_POLICY": str(keep_all)},
        }
        saves = {name: [] for name in variants}
        crowded = {count: [] for count in LIVE_ENTRIES}
        inert = {"plain": [], "preloaded": []}
        for _ in range(options.rounds):
            for name, environment in variants.items():
                saves[name].append(microseconds_per_save(environment))
            for count in LIVE_ENTRIES:
                without = microseconds_per_save({}, count)
                crowded[count].append(microseconds_per_save(variants["taken"], count) - without)
            inert["plain"].append(milliseconds_of_true({}))
            inert["preloaded"].append(milliseconds_of_true({"LD_PRELOAD": preload}))

    def added(figures, name, base):
        return statistics.median(a - b for a, b in zip(figures[name], figures[base]))

    result = {
        "rounds": options.rounds,
        "plain_us": statistics.median(saves["plain"]),
        "declined_added_us": added(saves, "declined", "plain"),
        "taken_added_us": added(saves, "taken", "plain"),
        "taken_added_us_by_live_entries": {n: statistics.median(crowded[n]) for n in LIVE_ENTRIES},
        "bin_true_ms": statistics.median(inert["plain"]),
        "bin_true_added_ms": added(inert, "preloaded", "plain"),
    }
    print(f"one exp that saves its result, no preload   {result['plain_us']:.3f} us")
    print(f"added when the tensor is declined           {result['declined_added_us']:+.3f} us (target <= 0.15)")
    print(f"added when it is taken, codec time aside    {result['taken_added_us']:+.3f} us (target <= 1.0)")
    for count, cost in result["taken_added_us_by_live_entries"].items():
        print(f"  with {count:7,} entries alive                   {cost:+.3f} us (target: flat)")
    print(f"/bin/true                                   {result['bin_true_ms']:.3f} ms")
    print(f"added by the inert preload                  {result['bin_true_added_ms']:+.3f} ms")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
