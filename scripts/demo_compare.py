# SPDX-License-Identifier: Apache-2.0
"""Trains each example plainly, under `cinch run --policy lossless` and under `cinch run`, and compares them.

Runs have the same seed and follow one another; with --repeat the order is reversed for every second seed, so that a
slow phase of the machine does not always hit the same side. All figures go to build/demo.json, what the runs
print to build/demo/. The exit status is 1 when a run failed, when Cinch was not active in it, when lossless
did not train to the same bits, or when the default lost more quality or saved less than its example allows.
It never depends on how fast the machine is.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CINCH = ROOT / "build/bin/cinch"
LOGS = ROOT / "build/demo"
DEFAULT = "default"
SIDES = ("plain", "lossless", DEFAULT)


class DemoError(Exception):
    """A run that says nothing about Cinch: it failed, or Cinch was not active in it."""


@dataclasses.dataclass(frozen=True)
class Example:
    """One training script, at a length of about a minute, how its score is shown, and what the default policy is to
    keep to on it: few test images make the CNN's score wander by a point or two."""

    name: str
    script: str
    arguments: tuple[str, ...]
    quick: tuple[str, ...]
    score_field: str
    score_label: str
    score_scale: float
    score_unit: str
    least_ratio: float
    largest_score_loss: float
    higher_is_better: bool = True


EXAMPLES = {
    "cnn": Example(
        name="cnn",
        script="examples/digits_cnn.py",
        arguments=("--epochs", "2", "--size", "24"),
        quick=("--epochs", "1", "--size", "16"),
        score_field="test_accuracy",
        score_label="test accuracy",
        score_scale=100,
        score_unit="%",
        least_ratio=9,
        largest_score_loss=3,
    ),
    "gpt": Example(
        name="gpt",
        script="examples/stdlib_gpt.py",
        arguments=("--steps", "32"),
        quick=("--steps", "10", "--validation-batches", "2"),
        score_field="validation_bits_per_byte",
        score_label="validation bits per byte",
        score_scale=1,
        score_unit="",
        least_ratio=4,
        largest_score_loss=0.05,
        higher_is_better=False,
    ),
}


def environment() -> dict[str, str]:
    """The same for all sides. Idle OpenMP threads sleep instead of spinning on the cores Cinch works on."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CINCH_")}
    return env | {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}


class Progress:
    """What runs, how far it is and for how long: one line on a terminal, elsewhere one for each of the script's."""

    def __init__(self, what: str):
        self.what = what
        self.start = time.perf_counter()
        self.show("starting")

    def show(self, how_far: str):
        line = f"{self.what}: {self.seconds():3.0f} s: {how_far}"
        if sys.stdout.isatty():
            print(f"\r\033[K{line}", end="", flush=True)
        else:
            print(line, flush=True)

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def end(self):
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)


def run(example: Example, seed: int, side: str, what: str, quick: bool) -> dict:
    """One training run; returns its metrics, with "wall_seconds" of the whole process, and Cinch's "report"."""
    stem = LOGS / f"{example.name}-{seed}-{side}"
    metrics_file, report_file, log_file = (stem.with_suffix(s) for s in (".json", ".report.json", ".log"))
    for file in (metrics_file, report_file):
        file.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / example.script), "--seed", str(seed), "--json", str(metrics_file)]
    command += example.quick if quick else example.arguments
    if side != "plain":
        command = [str(CINCH), "run", "--policy", side, "--report", str(report_file), "--"] + command

    progress = Progress(what)
    with open(log_file, "w") as log:
        process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        for line in process.stdout:
            log.write(line)
            if not line.startswith("cinch"):
                progress.show(line.rstrip())
        status = process.wait()
    wall_seconds = progress.seconds()
    progress.end()
    if status != 0:
        end = "\n".join("  " + line for line in log_file.read_text().splitlines()[-15:])
        raise DemoError(f"{end}\n{example.script} ended with {status} (the whole log: {log_file})")

    metrics = json.loads(metrics_file.read_text()) | {"seed": seed, "wall_seconds": wall_seconds}
    if side != "plain":
        if not report_file.exists():
            raise DemoError(f"Cinch left no report in {report_file}: it was not active")
        metrics["report"] = json.loads(report_file.read_text())
        if not metrics["report"]["active"]:
            raise DemoError(f"Cinch was not active: {metrics['report']['inactive_reason']}")
    return metrics


def summarize(example: Example, runs: list[dict]) -> dict:
    """Medians over the seeds, for each side; "time" and "growth" are medians of ratios to plain's."""

    def median(side: str, value) -> float:
        return statistics.median(value(each[side]) for each in runs)

    def against_plain(side: str, field: str) -> float:
        return statistics.median(each[side][field] / each["plain"][field] for each in runs)

    raw = median(DEFAULT, lambda m: m["report"]["raw_bytes_at_peak"])
    summary = {}
    for side in SIDES:
        summary[side] = {
            "score": median(side, lambda m: m[example.score_field]),
            "activation_bytes": raw if side == "plain" else median(side, lambda m: m["report"]["stored_bytes_at_peak"]),
            "ratio": 1.0 if side == "plain" else median(side, lambda m: m["report"]["ratio"]),
            "peak_rss_bytes": median(side, lambda m: m["peak_rss_bytes"]),
            "growth": against_plain(side, "peak_rss_growth_bytes"),
            "train_seconds": median(side, lambda m: m["train_seconds"]),
            "time": against_plain(side, "train_seconds"),
        }
    return summary


def problems(example: Example, runs: list[dict], summary: dict) -> list[str]:
    """What the example was to keep to and did not."""
    found = []
    for each in runs:
        if each["lossless"]["losses"] != each["plain"]["losses"]:
            found.append(f"seed {each['plain']['seed']}: lossless did not train to plain's losses")
    sign = example.score_scale if example.higher_is_better else -example.score_scale
    lost = sign * (summary["plain"]["score"] - summary[DEFAULT]["score"])
    if lost > example.largest_score_loss:
        found.append(f"{example.score_label}: {DEFAULT} lost {lost:.2f}, at most {example.largest_score_loss} expected")
    if summary[DEFAULT]["ratio"] < example.least_ratio:
        found.append(f"{DEFAULT}: ratio {summary[DEFAULT]['ratio']:.2f}, at least {example.least_ratio} expected")
    return found


def render(example: Example, summary: dict, seeds: int) -> str:
    def row(label: str, cell) -> str:
        return f"  {label:<26}" + "".join(f"{cell(summary[side]):>20}" for side in SIDES)

    def score(m: dict) -> str:
        return f"{m['score'] * example.score_scale:.2f} {example.score_unit}".rstrip()

    def share(value: float) -> str:
        return "" if value == 1 else f" ({value:.2f} x)"

    def mebibytes(count: float) -> str:
        return f"{count / 2**20:,.0f} MiB"

    medians = f", medians of {seeds} seeds" if seeds > 1 else ""
    return "\n".join(
        [
            f"{example.script}{medians}",
            f"  {'':<26}" + "".join(f"{side:>20}" for side in SIDES),
            row(example.score_label, score),
            row("activations at peak", lambda m: mebibytes(m["activation_bytes"])),
            row("  times smaller", lambda m: "" if m["ratio"] == 1 else f"{m['ratio']:.1f}"),
            row("peak RSS", lambda m: mebibytes(m["peak_rss_bytes"])),
            row("  growth after imports", lambda m: "1.00 x" if m["growth"] == 1 else f"{m['growth']:.2f} x"),
            row("training time", lambda m: f"{m['train_seconds']:.0f} s{share(m['time'])}"),
        ]
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Trains the examples plainly and under `cinch run`, and compares them."
    )
    parser.add_argument("--cnn", dest="chosen", action="append_const", const="cnn", help="only the CNN")
    parser.add_argument("--gpt", dest="chosen", action="append_const", const="gpt", help="only the GPT")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="seeds 0 … N-1 (default 1)")
    parser.add_argument("--quick", action="store_true", help="a few steps only: shows that it works, not how well")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    if not CINCH.exists():
        print(f"scripts/demo: {CINCH} is missing: run scripts/setup", file=sys.stderr)
        return 1
    LOGS.mkdir(parents=True, exist_ok=True)
    chosen = args.chosen or list(EXAMPLES)
    runs_in_all, done = len(chosen) * args.repeat * len(SIDES), 0
    results, texts, found = {}, [], []
    try:
        for name in chosen:
            example, runs = EXAMPLES[name], []
            for seed in range(args.repeat):
                runs.append({})
                for side in SIDES if seed % 2 == 0 else reversed(SIDES):
                    done += 1
                    what = f"[{done}/{runs_in_all}] {name}, {side}" + (f", seed {seed}" if args.repeat > 1 else "")
                    runs[-1][side] = run(example, seed, side, what, args.quick)
            summary = summarize(example, runs)
            results[name] = {"summary": summary, "problems": problems(example, runs, summary), "runs": runs}
            found += [] if args.quick else [f"{name}: {problem}" for problem in results[name]["problems"]]
            texts.append(render(example, summary, args.repeat))
    except DemoError as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 1
    output = {"default": DEFAULT, "quick": args.quick, "examples": results}
    (ROOT / "build/demo.json").write_text(json.dumps(output, indent=2) + "\n")
    print("\n" + "\n\n".join(texts))
    if args.quick:
        print("\n--quick: a few steps only; scores and times above mean little.")
    for problem in found:
        print(f"scripts/demo: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
