#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cinch's host allocator against the C library's and against preloaded tcmalloc, jemalloc and mimalloc.

    .venv/bin/python tests/bench/host_allocator.py [--build build] [--rounds 5] [--model NAME…] [--json FILE]

Every round runs each subject once, in turn, in a process of its own, starting with another one each
time; a ratio is taken within a round, and the median over the rounds is printed. Time is the median
training step's, CPU the whole process's seconds on both cores (which other processes on the machine
disturb less), faults its page faults, memory the peak resident memory above what it was after imports. Losses must equal
plain's bit for bit, or the script fails. Opponents that are not installed are left out with a word
(Debian: libtcmalloc-minimal4 libjemalloc2 libmimalloc2.0).

Models: `resnet`, eight equal blocks with 33 MB activations, where plain PyTorch is bound by page
faults; `cnn` and `gpt`, the examples.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import child_run

ROOT = pathlib.Path(__file__).resolve().parents[2]

RESNET = """
import json, statistics, sys, time
import torch
from torch import nn

def memory_bytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
    def forward(self, x):
        y = torch.relu(self.norm1(self.first(x)))
        return torch.relu(self.norm2(self.second(y)) + x)

after_imports = memory_bytes("VmRSS")
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *(Block(32) for _ in range(8)))
head = nn.Linear(32, 10)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
images, labels = torch.randn(64, 3, 64, 64), torch.randint(10, (64,))
losses, seconds = [], []
for step in range(int(sys.argv[1])):
    start = time.perf_counter()
    loss = nn.functional.cross_entropy(head(model(images).mean((2, 3))), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    seconds.append(time.perf_counter() - start)
with open(sys.argv[2], "w") as file:
    json.dump({"losses": losses, "median_step_seconds": statistics.median(seconds[1:]),
               "peak_rss_growth_bytes": memory_bytes("VmHWM") - after_imports}, file)
"""

MODELS = {
    "resnet": lambda quick, out: ["-c", RESNET, "3" if quick else "5", out],
    "cnn": lambda quick, out: [
        str(ROOT / "examples/digits_cnn.py"), "--epochs", "1", "--json", out,
        *(["--blocks", "2", "1", "1", "1"] if quick else []),
    ],
    "gpt": lambda quick, out: [
        str(ROOT / "examples/stdlib_gpt.py"), "--steps", "6" if quick else "20", "--validation-batches", "1",
        "--json", out,
    ],
}  # fmt: skip

OPPONENTS = {
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
}


def can_preload(library):
    probe = subprocess.run(["/bin/true"], env={**os.environ, "LD_PRELOAD": library}, capture_output=True, text=True)
    return probe.stderr == ""  # else the loader complains and goes on


def subjects(build, folder):
    """By name: what to set in the environment."""
    off = folder / "off.json"
    off.write_text(json.dumps({"version": 1, "policy": "off", "allocator": {"host": True}}))
    cinch = str(build / "lib/libcinch.so")
    found = {"plain": {}}
    for name, library in OPPONENTS.items():
        if can_preload(library):
            found[name] = {"LD_PRELOAD": library}
        else:
            print(f"host_allocator: goes without {name}: no {library}", file=sys.stderr)
    found["cinch off + host"] = {"LD_PRELOAD": cinch, "CINCH_POLICY": str(off)}
    found["cinch division"] = {"LD_PRELOAD": cinch, "CINCH_POLICY": "division"}
    return found


def measure(arguments, environment, out):
    """One run's figures."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments], env=child_run.clean_environment() | environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.exit(f"host_allocator: {environment}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = json.loads(out.read_text())
    return {
        "seconds": figures["median_step_seconds"],
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "faults": after.ru_minflt - before.ru_minflt,
        "growth": figures["peak_rss_growth_bytes"],
        "losses": figures["losses"],
    }


def compare(model, found, rounds, quick, folder):
    """Medians over the rounds for each subject, ratios within rounds."""
    runs = {name: [] for name in found}
    order = list(found)
    for round_number in range(rounds):
        shift = round_number % len(order)
        for name in order[shift:] + order[:shift]:
            out = folder / "figures.json"
            out.unlink(missing_ok=True)
            runs[name].append(measure(MODELS[model](quick, str(out)), found[name], out))
    rows = {}
    for name, all_runs in runs.items():
        pairs = list(zip(all_runs, runs["plain"]))
        rows[name] = {
            "seconds": statistics.median(run["seconds"] for run in all_runs),
            "growth_mib": statistics.median(run["growth"] for run in all_runs) / 2**20,
            "time_ratio": statistics.median(run["seconds"] / plain["seconds"] for run, plain in pairs),
            "cpu_ratio": statistics.median(run["cpu"] / plain["cpu"] for run, plain in pairs),
            "faults": statistics.median(run["faults"] for run in all_runs),
            "memory_ratio": statistics.median(run["growth"] / plain["growth"] for run, plain in pairs),
            "equal_losses": all(run["losses"] == plain["losses"] for run, plain in pairs),
        }
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--subject", nargs="+", help="only these, and plain")
    parser.add_argument("--quick", action="store_true", help="small runs that only show that it works")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    args = parser.parse_args()
    results = {}
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found = subjects(args.build.resolve(), folder)
        if args.subject:
            found = {k: v for k, v in found.items() if k == "plain" or k in args.subject}
        for model in args.model:
            results[model] = compare(model, found, args.rounds, args.quick, folder)
            print(f"\n{model:18} {'ms/step':>9} {'time':>6} {'CPU':>6} {'faults':>9} {'peak MiB':>9} {'memory':>7}")
            for subject, row in results[model].items():
                print(
                    f"{subject:18} {row['seconds'] * 1e3:9.1f} {row['time_ratio']:6.2f}"
                    f" {row['cpu_ratio']:6.2f} {row['faults']:9.0f}"
                    f" {row['growth_mib']:9.0f} {row['memory_ratio']:7.2f}"
                )
                if subject == "cinch off + host" and not row["equal_losses"]:
                    print("  losses differ from plain's")
                    failed = True
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
