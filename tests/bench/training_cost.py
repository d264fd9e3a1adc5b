#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of training steps, beside the same program without Cinch.

    .venv/bin/python tests/bench/training_cost.py [--build build] [--steps 25] [--warm-up 5] [--threads 2]
        [--models NAME …] [--variants NAME …] [--json FILE]

All variants of a model train at the same time, each in a process of its own, and take turns: one makes a step while the
others wait, in an order that reverses with every round. So whatever else the machine does meets all of them alike. A
ratio of times is taken within a round. Printed are the rounds' medians and quartiles, after the warm-up.

* plain: no preload;
* tcmalloc: plain, with libtcmalloc_minimal preloaded (left out where it is not installed);
* off: preloaded, min_bytes so large that every tensor is declined: the hooks alone, and Cinch's allocator;
* lossless, default, division, budget: the presets;
* default, torch's allocator: without Cinch's caching allocator for the CPU;
* lossless, attention stored; default, attention stored: fused attention's outputs are held and not computed again;
* default, side stream: encoded by a thread of its own;
* default, untold: without telemetry.

The models are those of peers/program.py; growth is that of peak RSS after imports.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE / "peers"))

from child_run import clean_environment  # noqa: E402
from host_allocator import OPPONENTS, can_preload  # noqa: E402
from variants import MODELS, PLAIN  # noqa: E402

USUAL = ["tcmalloc", "off", "lossless", "default"]


def environments(build: pathlib.Path, folder: pathlib.Path) -> dict[str, dict[str, str]]:
    """What each variant adds to the environment."""
    preload = str((build / "lib/libcinch.so").resolve(strict=True))
    presets = {name: json.loads((ROOT / f"configs/{name}.json").read_text()) for name in ("lossless", "default", "division", "budget")}
    policies = {
        "off": presets["default"] | {"min_bytes": 2**52},
        **presets,
        "default, torch's allocator": presets["default"] | {"allocator": {"enabled": False}},
        **{f"{name}, attention stored": presets[name] | {"derive": {"attention": False}} for name in ("lossless", "default")},
        "default, side stream": presets["default"] | {"stream": "side"},
        "default, untold": presets["default"],
    }
    found = {PLAIN: {}}
    if can_preload(OPPONENTS["tcmalloc"]):
        found["tcmalloc"] = {"LD_PRELOAD": OPPONENTS["tcmalloc"]}
    for number, (name, policy) in enumerate(policies.items()):
        file = folder / f"{number}.json"
        file.write_text(json.dumps(policy))
        report = str(folder / f"{number}.report.json")
        found[name] = {"LD_PRELOAD": preload, "CINCH_POLICY": str(file), "CINCH_REPORT": report, "CINCH_STRICT": "1"}
    found["default, untold"]["CINCH_TELEMETRY"] = "0"
    return found


class Training:
    """A process that trains `model` and waits before each step."""

    def __init__(self, model: str, environment: dict[str, str], threads: int):
        self._report = environment.get("CINCH_REPORT")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "steps_on_demand.py"), model],
            env=clean_environment()
            | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE / "peers")]), "OMP_NUM_THREADS": str(threads)}
            | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def _told(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"training_cost: a training ended with status {self._process.wait()}")
        return json.loads(line)

    def step(self) -> dict:
        self._process.stdin.write("\n")
        return self._told()

    def end(self) -> dict:
        """Its growth of memory, and the ratio that Cinch reports."""
        self._process.stdin.close()
        told = self._told()
        self._process.wait()
        report = json.loads(pathlib.Path(self._report).read_text()) if self._report else {}
        return told | {"ratio": report.get("ratio")}


def compare(model: str, chosen: dict[str, dict[str, str]], warm_up: int, steps: int, threads: int) -> dict[str, dict]:
    """Trains all variants of a model side by side. @return figures by variant"""
    trainings = {name: Training(model, environment, threads) for name, environment in chosen.items()}
    made = {name: [] for name in chosen}
    for number in range(warm_up + steps):
        for name in chosen if number % 2 == 0 else reversed(chosen):
            made[name].append(trainings[name].step())
    ends = {name: training.end() for name, training in trainings.items()}
    seconds = {name: [step["seconds"] for step in run[warm_up:]] for name, run in made.items()}
    losses = {name: [step["loss"] for step in run] for name, run in made.items()}
    return {
        name: {
            "seconds": seconds[name],
            "time": statistics.quantiles([a / b for a, b in zip(seconds[name], seconds[PLAIN])], n=4),
            "growth": ends[name]["growth"],
            "of_plains_growth": ends[name]["growth"] / ends[PLAIN]["growth"],
            "ratio": ends[name]["ratio"],
            "same_losses": losses[name] == losses[PLAIN],
        }
        for name in chosen
    }


def time_cell(name: str, row: dict) -> str:
    low, middle, high = row["time"]
    return f"{1e3 * statistics.median(row['seconds']):.0f} ms" if name == PLAIN else f"{middle:.2f} x ({low:.2f} to {high:.2f})"


def growth_cell(name: str, row: dict) -> str:
    growth = f"{row['growth'] / 2**20:.0f} MiB" if name == PLAIN else f"{row['of_plains_growth']:.2f} x"
    ratio = row["ratio"]
    return growth + (f" ({ratio:.1f})" if ratio and ratio > 1 else "")


def render(results: dict[str, dict[str, dict]], names: list[str]) -> str:
    """The tables of a document."""

    def table(cell) -> list[str]:
        rows = [[MODELS[model].title, *(cell(name, figures[name]) for name in names)] for model, figures in results.items()]
        heads = [["", *names], ["---", *["---:"] * len(names)]]
        return ["| " + " | ".join(row) + " |" for row in [*heads, *rows]]

    same = [name for name in names[1:] if all(figures[name]["same_losses"] for figures in results.values())]
    return "\n".join([
        "Time of a step; in brackets the quartiles of the rounds:", "", *table(time_cell), "",
        "Growth of peak RSS; in brackets the compression ratio of what is saved:", "", *table(growth_cell), "",
        f"Plain's losses, bit for bit: {', '.join(same) or 'none'}.",
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--warm-up", type=int, default=5, help="rounds that don't count; budget tries layers in its first 40")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--variants", nargs="+", metavar="NAME", default=USUAL, help=f"besides plain; default: {', '.join(USUAL)}")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        known = environments(options.build, pathlib.Path(folder))
        if unknown := set(options.variants) - set(known) - {"tcmalloc"}:
            parser.error(f"found variant {sorted(unknown)}, expected some of {sorted(known)}")
        chosen = {name: known[name] for name in [PLAIN, *options.variants] if name in known}
        for model in options.models:
            results[model] = compare(model, chosen, options.warm_up, options.steps, options.threads)
            print(f"{model}: " + "; ".join(f"{name} {time_cell(name, row)}" for name, row in results[model].items()), file=sys.stderr, flush=True)
    print(render(results, list(chosen)))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
