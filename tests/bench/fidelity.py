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

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHILD = """
import json, math, pathlib, random, sys, time
import torch
from torch import nn
import torch.nn.functional as F

name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(seed)
random.seed(seed)

def digits(size):
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    y = torch.tensor(data.target)
    train, test = train_test_split(range(len(y)), test_size=0.3, random_state=seed, stratify=data.target)
    grow = lambda t: F.interpolate(t, size=(size, size), mode="bilinear", align_corners=False)
    return x[train], y[train], x[test], y[test], grow

def cnn():
    def block(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
    return nn.Sequential(*block(1, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), *block(32, 32), nn.MaxPool2d(2),
                         *block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

def resnet18():
    from torchvision.models.resnet import BasicBlock, ResNet
    class Small(ResNet):
        def __init__(self):
            super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=10)
    model = Small()
    # A quarter of the width, and no early reduction of 32 x 32 images.
    def narrow(module):
        for child_name, child in module.named_children():
            if isinstance(child, nn.Conv2d):
                inputs = child.in_channels // 4 if child.in_channels > 3 else 1
                setattr(module, child_name, nn.Conv2d(inputs, child.out_channels // 4, child.kernel_size,
                                                      child.stride, child.padding, bias=False))
            elif isinstance(child, nn.BatchNorm2d):
                setattr(module, child_name, nn.BatchNorm2d(child.num_features // 4))
            else:
                narrow(child)
    narrow(model)
    model.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    model.fc = nn.Linear(128, 10)
    return model

def classify(model, size):
    x, y, xt, yt, grow = digits(size)
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

class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in self.qkv(x).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))

class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

class GPT(nn.Module):
    def __init__(self, dim=96, heads=4, layers=3, context=96):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, dim), nn.Embedding(context, dim)
        self.blocks, self.norm = nn.Sequential(*[Block(dim, heads) for _ in range(layers)]), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 256, bias=False)
    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])))

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
        "comet": preset("comet", comet={"every_steps": 40}),
        "budget_10x": preset("budget", budget={"ratio": 10, "every_steps": 50}),
        "auto": preset("auto", auto={"noise": 0.1, "every_steps": 50}),
    }


def run(model: str, seed: int, steps: int, environment: dict[str, str], report: pathlib.Path) -> dict:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
    clean |= {"OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"} | environment
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
