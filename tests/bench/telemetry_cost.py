#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What telemetry costs: training steps under the division policy, paired with CINCH_TELEMETRY=0.

    .venv/bin/python tests/bench/telemetry_cost.py [--build build] [--rounds 9] [--steps 20]
        [--model NAME …] [--json FILE]

Both sides of a round run one after the other, in an order that alternates; the ratio is taken within a
round, of the median step, and the median over the rounds is printed with the
quartiles: what does not exceed these is noise. tests/bench/telemetry_bench.cpp times the same work alone.
"""

import argparse
import json
import pathlib
import statistics
import tempfile

import training_cost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=training_cost.ROOT / "build")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--model", choices=training_cost.MODELS, action="append")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        base = training_cost.environments(options.build, pathlib.Path(folder))["division+allocator"]
        sides = {"on": base, "off": base | {"CINCH_TELEMETRY": "0"}}
        for model in options.model or ["resnet18", "gpt"]:
            seconds = {side: [] for side in sides}
            for number in range(options.rounds):
                for side in sides if number % 2 == 0 else reversed(sides):
                    seconds[side].append(training_cost.run(model, options.steps, sides[side])["seconds"])
            ratios = [on / off for on, off in zip(seconds["on"], seconds["off"])]
            low, middle, high = statistics.quantiles(ratios, n=4)
            results[model] = {"seconds": seconds, "ratio": middle, "quartiles": [low, high]}
            print(f"{training_cost.MODELS[model]}: {statistics.median(seconds['off']) * 1e3:.1f} ms a step without; "
                  f"with telemetry {middle:.4f} x (quartiles {low:.4f} to {high:.4f}, {options.rounds} rounds)", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
