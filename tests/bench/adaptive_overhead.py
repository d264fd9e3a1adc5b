#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it costs that policies adapt: time of looks, trials and decisions in real training, as the report counts it.

    .venv/bin/python tests/bench/adaptive_overhead.py [--build build] [--model NAME …] [--policy NAME …] [--json FILE]

Every policy trains a model of fidelity.py twice, for SHORT and for LONG steps, with rounds of adaptation every
INTERVAL steps. The difference of the two runs has three whole rounds and nothing of the first steps, in which layers are
got to know: hence the time of one adaptation and of one step, and, with the steps that the shipped policy lets pass
between two rounds, the share of the training's time. What is spent once, in the first steps, is printed beside it.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import child_run
from fidelity import ROOT, preset
from fidelity_table import MODELS

HERE = pathlib.Path(__file__).resolve().parent
INTERVAL, SHORT, LONG = 50, 75, 225
ROUNDS = (LONG - SHORT) // INTERVAL

# Fields of the policies, and the steps between two rounds of the presets (docs/adaptive-policies.md).
POLICIES = {
    "actnn": ({"level": "L3", "bits": 2}, 100),
    "acgc": ({}, 100),
    "comet": ({}, 1000),
    "budget": ({"ratio": 10}, 100),
}


def run(model: str, policy: str, steps: int, preload: str) -> dict:
    settings = preset(policy) | {policy: POLICIES[policy][0] | {"every_steps": INTERVAL}, "guard": {"every_steps": 0}}
    command = [sys.executable, HERE / MODELS[model].program, model, 0, steps]
    with tempfile.TemporaryDirectory() as folder:
        done, told = child_run.run(command, pathlib.Path(folder), f"{model}, {policy}", preload, settings)
    return {"seconds": json.loads(done.stdout.splitlines()[-1])["seconds"], "adapting": told["seconds_adapting"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=["resnet18", "gpt"])
    parser.add_argument("--policy", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    options = parser.parse_args()
    preload = str((options.build / "lib/libcinch.so").resolve(strict=True))
    everything = []
    for model in options.model:
        print(f"\n{MODELS[model].title}")
        print(f"{'policy':8} {'ms a step':>10} {'ms an adaptation':>17} {'every':>6} {'share':>7} {'once, ms':>9}", flush=True)
        for policy in options.policy:
            short, long = (run(model, policy, steps, preload) for steps in (SHORT, LONG))
            step = (long["seconds"] - short["seconds"]) / (LONG - SHORT)
            adaptation = (long["adapting"] - short["adapting"]) / ROUNDS
            once = max(short["adapting"] - adaptation, 0)
            every = POLICIES[policy][1]
            share = adaptation / (every * step)
            print(f"{policy:8} {1e3 * step:10.1f} {1e3 * adaptation:17.1f} {every:6} {100 * share:6.2f}% {1e3 * once:9.0f}", flush=True)
            everything.append({"model": model, "policy": policy, "step": step, "adaptation": adaptation, "once": once, "share": share})
            if options.json:
                options.json.write_text(json.dumps(everything))


if __name__ == "__main__":
    main()
