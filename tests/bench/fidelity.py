#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each policy costs in the quality of training: small models on real data, paired by seed with plain runs.

    .venv/bin/python tests/bench/fidelity.py [--build build] [--model NAME …] [--variant NAME …]
        [--seeds 5] [--steps N] [--json FILE]

* cnn: a convolutional net with batch norm and max-pool, scikit-learn's digits at 16 x 16, test accuracy in %;
* resnet18: torchvision's ResNet-18 at a quarter of its width, digits at 32 x 32, test accuracy in %;
* gpt: a byte-level transformer on the source text of Python's standard library, test bits a byte.

A difference is variant - plain of the same seed (initial weights, order of data); printed are its mean and
standard error over the seeds. The data of another seed are split otherwise, so that seeds differ in more
than chance draws. Ratio and the share of time spent in Cinch are the reports'.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

CHILD = """
import json, math, pathlib, random, sys, time
import torch
import torch.nn.functional as F
from small_models import GPT, cnn, digits, resnet18

name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(seed)
random.seed(seed)

def classify(model, size):
    x, y, xt, yt, grow = digits(size, seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps)
    order = []
    for step in range(steps):
        if len(order) < 32:
            order = torch.randperm(len(y)).tolist()
        picked, order = order[:32], order[32:]
        loss = F.cross_entropy(model(grow(x[picked])), y[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(grow(a)).argmax(1) == b).sum().item() for a, b in zip(xt.split(200), yt.split(200)))
    return 100 * right / len(yt)

def write():
    context = 96
    folder = pathlib.Path(json.__file__).parent.parent
    text = b"".join(f.read_bytes() for f in sorted(folder.glob("*.py"))[:60])
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    train, test = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]
    model = GPT(context=context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    def loss_at(source, starts):
        rows = torch.stack([source[s : s + context + 1] for s in starts])
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
    for step in range(steps):
        loss = loss_at(train, torch.randint(len(train) - context - 1, (16,)).tolist())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        starts = torch.linspace(0, len(test) - context - 1, 256).long().tolist()
        return sum(loss_at(test, starts[i : i + 32]).item() for i in range(0, 256, 32)) / 8 / math.log(2)

begin = time.perf_counter()
metric = {"cnn": lambda: classify(cnn(), 16), "resnet18": lambda: classify(resnet18(), 32), "gpt": write}[name]()
print(json.dumps({"metric": metric, "seconds": time.perf_counter() - begin}))
"""

MODELS = {"cnn": ("CNN, accuracy %", 220), "resnet18": ("ResNet-18 / 4, accuracy %", 160), "gpt": ("GPT, bits a byte", 300)}


def preset(name: str, **more) -> dict:
    content = json.loads((ROOT / f"configs/{name}.json").read_text())
    return {key: value for key, value in content.items() if key != "$schema"} | more


def variants() -> dict[str, dict]:
    # Runs this short need shorter intervals than the presets'.
    return {
        "division": preset("division"),
        "actnn_L2_4bit": preset("actnn", actnn={"level": "L2", "fixed_bits": 4}),
        "actnn_L3_2bit": preset("actnn", actnn={"level": "L3", "bits": 2, "every_steps": 20}),
        "actnn_L3_1.5bit": preset("actnn", actnn={"level": "L3", "bits": 1.5, "every_steps": 20}),
        "blpa_4bit": preset("blpa"),
        "acgc": preset("acgc", acgc={"every_steps": 20}),
        "acgc_AutoCuSZ": preset("acgc", acgc={"codec": "AutoCuSZ", "every_steps": 20}),
        "acgc_expected": preset("acgc", acgc={"mode": "expected", "every_steps": 20}),
        "comet": preset("comet", comet={"every_steps": 40}),
        "budget_10x": preset("budget", budget={"ratio": 10, "every_steps": 50}),
        "auto": preset("auto", auto={"noise": 0.1, "every_steps": 50}),
    }


def run(model: str, seed: int, steps: int, environment: dict[str, str], report: pathlib.Path) -> dict:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
    clean |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE)} | environment
    command = [sys.executable, "-c", CHILD, model, str(seed), str(steps)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{model}, seed {seed}: exit status {done.returncode}\n{done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    result["guard_lines"] = done.stderr.count("cinch: guard")
    if report.is_file():
        told = json.loads(report.read_text())
        result |= {"ratio": told["ratio"], "share": told["seconds_in_cinch"] / result["seconds"]}
        report.unlink()
    return result


def mean_and_error(values: list[float]) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    return f"{mean:+.3f} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--variant", nargs="+", choices=variants(), default=list(variants()))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="instead of each model's own number")
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    options = parser.parse_args()
    preload = str((options.build / "lib/libcinch.so").resolve(strict=True))
    everything = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        report = folder / "report.json"
        for model in options.model:
            title, steps = MODELS[model]
            steps = options.steps or steps
            plain = [run(model, seed, steps, {}, report) for seed in range(options.seeds)]
            metrics = [result["metric"] for result in plain]
            spread = f" (sd {statistics.stdev(metrics):.3f})" if len(metrics) > 1 else ""
            print(f"\n{title}, {steps} steps, {options.seeds} seeds: plain {statistics.mean(metrics):.3f}{spread}")
            print(f"{'variant':18} {'difference':>18} {'ratio':>7} {'in Cinch':>9} {'guard':>6}", flush=True)
            for variant in options.variant:
                file = folder / f"{variant}.json"
                file.write_text(json.dumps(variants()[variant]))
                environment = {"LD_PRELOAD": preload, "CINCH_POLICY": str(file), "CINCH_REPORT": str(report), "CINCH_STRICT": "1"}
                results = [run(model, seed, steps, environment, report) for seed in range(options.seeds)]
                differences = [a["metric"] - b["metric"] for a, b in zip(results, plain)]
                ratio = statistics.mean(result["ratio"] for result in results)
                share = statistics.mean(result["share"] for result in results)
                guard = sum(result["guard_lines"] for result in results)
                print(f"{variant:18} {mean_and_error(differences):>18} {ratio:7.2f} {100 * share:8.1f}% {guard:6}", flush=True)
                everything.append({"model": model, "variant": variant, "plain": plain, "results": results})
                if options.json:
                    options.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
