#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each policy costs in the quality of training: small models on real data, paired by seed with plain runs.

    .venv/bin/python tests/bench/fidelity.py [--build build] [--model NAME …] [--variant NAME …]
        [--seeds 5] [--steps N] [--json FILE [--minutes M]]
    .venv/bin/python tests/bench/fidelity.py --show FILE …

* cnn: a convolutional net with batch norm and max-pool, scikit-learn's digits at 16 x 16, test accuracy in %;
* resnet18: torchvision's ResNet-18 at a quarter of its width, digits at 32 x 32, test accuracy in %;
* gpt: a byte-level transformer on the source text of Python's standard library, test bits a byte;
* gpt_eager: the same with attention written out;
* vit: a vision transformer, digits at 32 x 32, test accuracy in %;
* bert: an encoder of bytes that tells which package a piece of source is from, test accuracy in %;
* unet: digits out of noise, with group norm and SiLU, test signal-to-noise ratio in dB;
* convnext: torchvision's ConvNeXt with six blocks, digits at 32 x 32, test accuracy in %;
* lstm: two recurrent layers on the source text, test bits a byte;
* diffusion: the noise in noisy digits, with attention at the lowest resolution, mean squared error.

A difference is variant - plain of the same seed (initial weights, order of data); printed are its mean and
standard error over the seeds, and the same of the test loss, which tells small differences sooner. The data of another
seed are split otherwise, so that seeds differ in more than chance draws. Ratio and the share of time spent in Cinch are the reports'; "of the rest" is the ratio without what
backward reads first, which is never encoded (a language model's log-probabilities), and "to learn" what looking at
gradients, trying and deciding took.

With --json every run is kept in FILE as soon as it is done, and runs that FILE already has are not made again: call it
as often as it takes, each time for --minutes at most. --show prints the tables of one or several such files together.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile
import time

import child_run

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

MODELS = {
    "cnn": ("CNN, accuracy %", 300),
    "resnet18": ("ResNet-18 / 4, accuracy %", 200),
    "convnext": ("ConvNeXt-tiny, accuracy %", 300),
    "gpt": ("GPT, bits a byte", 300),
    "gpt_eager": ("GPT, attention written out, bits a byte", 300),
    "lstm": ("LSTM, bits a byte", 400),
    "vit": ("ViT-tiny, accuracy %", 500),
    "bert": ("BERT-tiny, accuracy %", 700),
    "unet": ("U-Net, dB", 160),
    "diffusion": ("Diffusion U-Net, squared error", 300),
}
PLAIN = "plain"


def preset(name: str, **more) -> dict:
    content = json.loads((ROOT / f"configs/{name}.json").read_text())
    return {key: value for key, value in content.items() if key != "$schema"} | more


def variants() -> dict[str, dict]:
    # Runs this short need shorter intervals than the presets'.
    return {
        "lossless": preset("lossless"),
        "lossless_stored": preset("lossless", derive={"enabled": False}),
        "default": preset("default"),
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
        "auto_0.05": preset("auto", auto={"noise": 0.05, "every_steps": 50}),
        "auto_0.03": preset("auto", auto={"noise": 0.03, "every_steps": 50}),
    }


def run(model: str, variant: str, seed: int, steps: int, preload: str) -> dict:
    """One training. @return what train_small.py and the report tell of it"""
    command = [sys.executable, HERE / "train_small.py", model, seed, steps]
    policy = None if variant == PLAIN else variants()[variant]
    with tempfile.TemporaryDirectory() as folder:
        done, told = child_run.run(command, pathlib.Path(folder), f"{model}, {variant}, seed {seed}", preload, policy)
    result = json.loads(done.stdout.splitlines()[-1])
    result |= {"model": model, "variant": variant, "seed": seed, "steps": steps}
    if told is not None:
        result["ratio"] = told["ratio"]
        # What backward reads first, such as the loss's own scores, is never encoded: it is needed at once.
        first = sum(p["bytes"] for p in told["passed_through"] if p["reason"].startswith("read by backward")) / steps
        result["rest"] = (told["raw_bytes_at_peak"] - first) / (told["stored_bytes_at_peak"] - first)
        result["share"] = told["seconds_in_cinch"] / result["seconds"]
        result["learning"] = told["seconds_adapting"] / result["seconds"]
        result["guard_lines"] = done.stderr.count("cinch: guard")
    return result


def key(result: dict) -> tuple:
    return result["model"], result["steps"], result["variant"], result["seed"]


def mean_and_error(values: list[float]) -> str:
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    return f"{mean:+.3f} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def show(results: list[dict]) -> None:
    """A table for each model and number of steps."""
    runs = {key(result): result for result in results}
    for model, steps in sorted({(r["model"], r["steps"]) for r in results}, key=lambda m: (list(MODELS).index(m[0]), m[1])):
        of_model = [r for r in runs.values() if (r["model"], r["steps"]) == (model, steps)]
        plain = {r["seed"]: r["metric"] for r in of_model if r["variant"] == PLAIN}
        losses = {r["seed"]: r["loss"] for r in of_model if r["variant"] == PLAIN}
        if not plain:
            continue
        spread = f" (sd {statistics.stdev(plain.values()):.3f})" if len(plain) > 1 else ""
        print(f"\n{MODELS[model][0]}, {steps} steps: plain {statistics.mean(plain.values()):.3f}{spread}, {len(plain)} seeds")
        print(f"{'variant':18} {'seeds':>5} {'difference':>18} {'of the loss':>18} {'ratio':>7} {'of the rest':>12} {'in Cinch':>9} {'to learn':>9} {'guard':>6}")
        for variant in variants():
            rows = [r for r in of_model if r["variant"] == variant and r["seed"] in plain]
            if not rows:
                continue
            difference = mean_and_error([r["metric"] - plain[r["seed"]] for r in rows])
            of_loss = mean_and_error([r["loss"] - losses[r["seed"]] for r in rows])
            means = (statistics.mean(r[what] for r in rows) for what in ("ratio", "rest", "share", "learning"))
            ratio, rest, share, learning = means
            guard = sum(r["guard_lines"] for r in rows)
            print(f"{variant:18} {len(rows):5} {difference:>18} {of_loss:>18} {ratio:7.2f} {rest:12.2f} {100 * share:8.1f}% {100 * learning:8.2f}% {guard:6}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--variant", nargs="+", choices=variants(), default=list(variants()))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="instead of each model's own number")
    parser.add_argument("--json", type=pathlib.Path, help="keep all runs in this file, and make none again that it has")
    parser.add_argument("--minutes", type=float, help="begin no run after that many")
    parser.add_argument("--show", type=pathlib.Path, nargs="+", metavar="FILE", help="run nothing, print what these files have")
    options = parser.parse_args()
    if options.show:
        show([result for file in options.show for result in json.loads(file.read_text())])
        return
    preload = str((options.build / "lib/libcinch.so").resolve(strict=True))
    results = json.loads(options.json.read_text()) if options.json and options.json.is_file() else []
    known = {key(result) for result in results}
    begin = time.monotonic()
    left_out = 0
    # All variants of a seed before the next seed, so that what is there at any time can be compared.
    for model in options.model:
        steps = options.steps or MODELS[model][1]
        for seed in range(options.seeds):
            for variant in [PLAIN, *options.variant]:
                if (model, steps, variant, seed) in known:
                    continue
                if options.minutes and time.monotonic() - begin > 60 * options.minutes:
                    left_out += 1
                    continue
                results.append(run(model, variant, seed, steps, preload))
                if options.json:
                    options.json.write_text(json.dumps(results))
    show(results)
    if left_out:
        print(f"\n{left_out} runs are left: the same command goes on with them")


if __name__ == "__main__":
    main()
