#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each policy costs in the quality of training: small models on real data, paired by seed with plain runs.

    .venv/bin/python tests/bench/fidelity.py [--build build] [--model NAME …] [--variant NAME …] [--seeds 5] [--steps N]
        [--jobs N] [--minutes M] [--json tests/bench/fidelity_runs.json [--resume]] [--write docs/fidelity.md]
    .venv/bin/python tests/bench/fidelity.py --show [--json FILE] [--write docs/fidelity.md]

train_small.py has the models, and pretrained.py those that packages carry; docs/fidelity.md describes them.

The variant "nudged" is plain, too, but for the last bit of one weight at the beginning: its differences are chance.

A difference is variant - plain of the same seed (initial weights, order of data); the table has its mean and standard
error over the seeds, and the same of the test loss, which tells small differences sooner. The data of another seed are
split otherwise, so that seeds differ in more than chance draws. Ratio and the share of time spent in Cinch are the
reports'; "without what is read first" is the ratio without what backward reads first, which is never encoded (a language
model's log-probabilities), and "adapting" what looking at gradients, trying and deciding took.

Every run is kept in the JSON file as soon as it is done; the repository has those of docs/fidelity.md. With --resume,
runs that the file has are not made again; those that failed are, and those of a policy whose preset has changed since.
--write puts the table between the marks of a document.
"""

import argparse
import concurrent.futures
import datetime
import json
import pathlib
import shlex
import sys
import tempfile
import threading
import time

import child_run
from fidelity_table import MODELS, NUDGED, PLAIN, around_the_marks, put, render
from kept_runs import KeptRuns

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The presets; mixed 1.5 bits show what too few do. The other variants are for questions about one of them.
STUDIED = [
    "lossless", "default", "division", "actnn_L2_4bit", "actnn_L3_2bit", "actnn_L3_1.5bit", "blpa_4bit", "acgc", "comet", "budget_10x",
]  # fmt: skip


def preset(name: str, **more) -> dict:
    content = json.loads((ROOT / f"configs/{name}.json").read_text())
    return {key: value for key, value in content.items() if key != "$schema"} | more


def variants() -> dict[str, dict | None]:
    """Policies; None for the one without Cinch."""
    # Runs this short need shorter intervals than the presets'.
    return {
        NUDGED: None,
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
        "budget_10x_stored": preset("budget", budget={"ratio": 10, "every_steps": 50}, derive={"enabled": False}),
        "budget_14x": preset("budget", budget={"ratio": 14, "every_steps": 50}),
    }


def figures(done: dict, told: dict, steps: int) -> dict:
    """@param done What the training printed @param told The report of the same run"""
    raw, stored = told["raw_bytes_at_peak"], told["stored_bytes_at_peak"]
    # What backward reads first, such as the loss's own scores, is never encoded: it is needed at once.
    first = sum(p["bytes"] for p in told["passed_through"] if p["reason"].startswith("read by backward")) / steps
    ratio = told["ratio"] or 1.0  # the report's is 0 where nothing was held
    return {
        "ratio": ratio,
        "rest": (raw - first) / (stored - first) if stored > first else ratio,
        "share": told["seconds_in_cinch"] / done["seconds"],
        "learning": told["seconds_adapting"] / done["seconds"],
    }


def run(made: dict, preload: str) -> dict:
    """One training. @param made Which @return what it printed, and the report, tell of it, or "error" """
    command = [sys.executable, HERE / MODELS[made["model"]].program, made["model"], made["seed"], made["steps"]]
    if made["variant"] == NUDGED:
        command.append(NUDGED)
    what = f"{made['model']}, {made['variant']}, seed {made['seed']}"
    policy = made.get("settings")
    with tempfile.TemporaryDirectory() as folder:
        try:
            done, told = child_run.run(command, pathlib.Path(folder), what, preload, policy)
        except child_run.Failed as failure:
            return {"error": str(failure)[-4000:]}
    result = json.loads(done.stdout.splitlines()[-1])
    if policy is None:
        return result
    if told is None or not told["active"]:
        return {"error": f"Cinch was not active: {told['inactive_reason'] if told else 'no report'}"}
    return result | figures(result, told, made["steps"]) | {"guard_lines": done.stderr.count("cinch: guard")}


def missing(kept: KeptRuns, options) -> list[dict]:
    """The runs that `kept` has not got: all models and variants of a seed before the next seed, so that what is there at
    any time can be compared."""
    policies = variants()
    wanted = []
    for seed in range(options.seeds):
        for model in options.model:
            for variant in [PLAIN, *options.variant]:
                steps = options.steps or MODELS[model].steps
                made = {"model": model, "variant": variant, "seed": seed, "steps": steps, "threads": 1}
                policy = policies.get(variant)
                wanted.append(made if policy is None else made | {"settings": policy})
    return [made for made in wanted if not kept.has(made)]


def study(kept: KeptRuns, options) -> int:
    """Makes the runs that are missing, options.jobs at a time, and begins none after options.minutes.
    @return how many are left"""
    preload = str((options.build / "lib/libcinch.so").resolve(strict=True))
    begin = time.monotonic()
    one_at_a_time, stopped = threading.Lock(), threading.Event()

    def measure(made: dict) -> None:
        started = time.monotonic()
        if stopped.is_set() or (options.minutes is not None and started - begin > 60 * options.minutes):
            return
        made = made | run(made, preload) | {"date": str(datetime.date.today())}
        with one_at_a_time:
            if stopped.is_set():  # by a person, who interrupted the training too
                return
            kept.about["torch"] = made.pop("torch", kept.about["torch"])
            kept.add(made)
            outcome = f"failed: {made['error']}" if "error" in made else f"{made['metric']:.4f} {MODELS[made['model']].unit}"
            ratio = f", ratio {made['ratio']:.1f}" if "ratio" in made else ""
            took = f"({time.monotonic() - started:.0f} s)"
            print(f"{made['model']}, seed {made['seed']}, {made['variant']} {took}: {outcome}{ratio}", file=sys.stderr, flush=True)

    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        for future in [pool.submit(measure, made) for made in missing(kept, options)]:
            future.result()
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
    return len(missing(kept, options))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    small = [name for name, model in MODELS.items() if model.program == "train_small.py"]
    known = f"some of {', '.join(MODELS)}; default: all but what pretrained.py has"
    parser.add_argument("--model", nargs="+", choices=MODELS, default=small, metavar="NAME", help=known)
    known = f"some of {', '.join(variants())}; default: {', '.join(STUDIED)}"
    parser.add_argument("--variant", nargs="+", choices=variants(), default=STUDIED, metavar="NAME", help=known)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="instead of each model's own number")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, of one thread each")
    parser.add_argument("--minutes", type=float, help="begin no run after that many")
    parser.add_argument("--json", type=pathlib.Path, default=HERE / "fidelity_runs.json")
    parser.add_argument("--resume", action="store_true", help="go on with the file's runs")
    parser.add_argument("--show", action="store_true", help="run nothing, render what the file has")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md", help="the document with the marks; default: standard output")
    options = parser.parse_args()
    if options.show and not options.json.exists():
        parser.error(f"{options.json} is missing: there is nothing to show")
    if not options.show and options.json.exists() and not options.resume:
        parser.error(f"{options.json} has runs already: pass --resume to go on with them, or remove it")
    if options.write:
        try:
            around_the_marks(options.write)
        except (OSError, ValueError) as bad:  # now, not after hours of training
            parser.error(str(bad))
    return options


def main() -> int:
    options = parse_arguments()
    command = shlex.join([".venv/bin/python", "tests/bench/fidelity.py", *sys.argv[1:]])
    kept = KeptRuns.opened(options.json, command, threads=1)
    left = 0
    if not options.show:
        kept.about["command"] = command
        try:
            left = study(kept, options)
        except KeyboardInterrupt:
            sys.exit("fidelity: interrupted; the same command with --resume goes on")
    table = render(kept, list(variants()))
    if options.write:
        put(table, options.write)
    else:
        print(table, end="")
    if left:
        print(f"fidelity: {left} runs are left; the same command with --resume goes on", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
