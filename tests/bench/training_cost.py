#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wall time and memory of whole training steps, against the same program without Cinch.

    .venv/bin/python tests/bench/training_cost.py [--build build] [--rounds 5] [--steps 8]
        [--model NAME …] [--variant NAME …] [--json FILE]

Variants run in turn, round after round, each in a process of its own, in an order that reverses with
every round. A ratio is taken within a round, and the median over the rounds is printed; memory is the
growth of peak RSS over what the process held before its first step.

* plain: no preload;
* tcmalloc: plain, with libtcmalloc_minimal preloaded (left out where it is not installed);
* off: preloaded, min_bytes so large that every tensor is declined: the hooks alone;
* default, division, lossless: the presets, on PyTorch's own CPU allocator;
* side: default with `"stream": "side"`;
* default+allocator, division+allocator, lossless+allocator: the presets as they ship.

Every variant sets OMP_WAIT_POLICY=PASSIVE: spinning threads on a shared machine measure the others.
"""

import argparse
import ctypes.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHILD = """
import json, sys, time
import torch
from torch import nn
import torch.nn.functional as F

def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))

def resnet18():
    import torchvision
    model = torchvision.models.resnet18(num_classes=10)
    x, y = torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))
    return model, lambda: F.cross_entropy(model(x), y)

def gpt():
    import stdlib_gpt
    model = stdlib_gpt.GPT(layers=6, dim=256, heads=8, context=256)
    tokens, targets = torch.randint(0, 256, (2, 8, 256))
    return model, lambda: stdlib_gpt.loss_of(model, tokens, targets)

def wide():
    # Equal blocks whose activations are 33 MB each: bound by page faults on PyTorch's own allocator.
    blocks = [nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()) for _ in range(8)]
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    x, y = torch.randn(16, 3, 128, 128), torch.randint(0, 10, (16,))
    return model, lambda: F.cross_entropy(model(x), y)

torch.manual_seed(0)
torch.set_num_threads(2)
model, loss_of = {"resnet18": resnet18, "gpt": gpt, "wide": wide}[sys.argv[1]]()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
def step():
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    optimizer.step()
    return loss.item()
before = resident("VmRSS")
losses = [step() for _ in range(3)]
seconds = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    losses.append(step())
    seconds.append(time.perf_counter() - start)
seconds.sort()
print(json.dumps({"seconds": seconds[len(seconds) // 2], "growth": resident("VmHWM") - before, "loss": losses[-1]}))
"""

MODELS = {"resnet18": "ResNet-18 at 64x64", "gpt": "6-layer GPT", "wide": "8 equal blocks of 33 MB"}


def policies(folder: pathlib.Path) -> dict[str, str]:
    """Policy files by variant."""
    presets = {name: json.loads((ROOT / f"configs/{name}.json").read_text()) for name in ("default", "division", "lossless")}
    own = {"allocator": {"enabled": False}}
    contents = {
        "off": {"version": 1, "policy": "division", "min_bytes": 2**52} | own,
        **{name: preset | own for name, preset in presets.items()},
        "side": presets["default"] | own | {"stream": "side"},
        **{f"{name}+allocator": preset for name, preset in presets.items()},
    }
    files = {}
    for name, content in contents.items():
        files[name] = str(folder / f"{name}.json")
        pathlib.Path(files[name]).write_text(json.dumps(content))
    return files


def environments(build: pathlib.Path, folder: pathlib.Path) -> dict[str, dict[str, str]]:
    preload = str((build / "lib/libcinch.so").resolve(strict=True))
    variants = {"plain": {}}
    tcmalloc = ctypes.util.find_library("tcmalloc_minimal")
    if tcmalloc:
        variants["tcmalloc"] = {"LD_PRELOAD": tcmalloc}
    for name, file in policies(folder).items():
        report = str(folder / f"{name}.report.json")
        variants[name] = {"LD_PRELOAD": preload, "CINCH_POLICY": file, "CINCH_REPORT": report, "CINCH_STRICT": "1"}
    return variants


def run(model: str, steps: int, environment: dict[str, str]) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, model, str(steps)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples"), "OMP_WAIT_POLICY": "PASSIVE", **environment},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"{model} failed under {environment}:\n{done.stderr}")
    result = json.loads(done.stdout)
    report = pathlib.Path(environment.get("CINCH_REPORT", ""))
    if report.is_file():
        read = json.loads(report.read_text())
        result |= {"ratio": read["ratio"], "in_cinch": read["seconds_in_cinch"]}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--variant", action="append", help="besides plain; default: all")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        variants = environments(options.build, pathlib.Path(folder))
        chosen = ["plain"] + [v for v in options.variant or variants if v != "plain"]
        if unknown := set(chosen) - set(variants):
            parser.error(f"found variant {sorted(unknown)}, expected some of {sorted(variants)}")
        for model in options.model or MODELS:
            runs = {name: [] for name in chosen}
            for number in range(options.rounds):
                for name in chosen if number % 2 == 0 else reversed(chosen):
                    runs[name].append(run(model, options.steps, variants[name]))
            plain = runs["plain"]
            print(f"{MODELS[model]}: plain {statistics.median(r['seconds'] for r in plain) * 1e3:.0f} ms a step, "
                  f"RSS growth {statistics.median(r['growth'] for r in plain) / 2**20:.0f} MiB")
            print(f"  {'variant':20}{'time':>8}{'RSS growth':>12}{'ratio':>8}{'same loss':>11}")
            results[model] = {}
            for name in chosen:
                row = {
                    "time": statistics.median(r["seconds"] / p["seconds"] for r, p in zip(runs[name], plain)),
                    "growth": statistics.median(r["growth"] / p["growth"] for r, p in zip(runs[name], plain)),
                    "ratio": runs[name][0].get("ratio"),
                    "same_loss": all(r["loss"] == plain[0]["loss"] for r in runs[name]),
                    "seconds": [r["seconds"] for r in runs[name]],
                }
                results[model][name] = row
                ratio = f"{row['ratio']:.1f}" if row["ratio"] else "-"
                same = "yes" if row["same_loss"] else "no"
                print(f"  {name:20}{row['time']:7.3f}x{row['growth']:11.2f}x{ratio:>8}{same:>11}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
