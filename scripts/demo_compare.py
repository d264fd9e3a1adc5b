# SPDX-License-Identifier: Apache-2.0
"""Trains each example plainly and under `cinch run`, and prints the two side by side.

Runs are paired: same seed, one right after the other, and with --repeat the order alternates, so that
a slow phase of the machine hits both sides. Everything is written to build/demo.json; what the runs
print goes to build/demo/. A target that is missed is printed as missed and is not an error; a run that
fails, or in which Cinch was not active, is.
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
POLICY = "division"


class DemoError(Exception):
    """A run that says nothing about Cinch: it failed, or Cinch was not active in it."""


@dataclasses.dataclass(frozen=True)
class Example:
    """One training script and what Cinch is to reach on it (a target of None: none set)."""

    name: str
    script: str
    quick: tuple[str, ...]
    score_field: str
    score_label: str
    score_scale: float
    score_unit: str
    least_ratio: float
    largest_score_loss: float | None = None
    largest_growth: float | None = None
    higher_is_better: bool = True
    largest_time: float = 1.10


EXAMPLES = {
    "cnn": Example(
        name="cnn",
        script="examples/digits_cnn.py",
        quick=("--epochs", "1"),
        score_field="test_accuracy",
        score_label="test accuracy",
        score_scale=100,
        score_unit="%",
        least_ratio=10,
        largest_score_loss=1,
        largest_growth=1 / 3,
    ),
    "gpt": Example(
        name="gpt",
        script="examples/stdlib_gpt.py",
        quick=("--steps", "20"),
        score_field="validation_bits_per_byte",
        score_label="validation bits per byte",
        score_scale=1,
        score_unit="",
        least_ratio=4,
        higher_is_better=False,
    ),
}


def environment() -> dict[str, str]:
    """The same for both sides. Idle OpenMP threads sleep instead of spinning on the cores Cinch works on."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CINCH_")}
    return env | {"OMP_WAIT_POLICY": "PASSIVE"}


def run(example: Example, seed: int, compressed: bool, quick: bool) -> dict:
    """One training run; returns its metrics, with "wall_seconds" of the whole process, and "report"."""
    stem = LOGS / f"{example.name}-{seed}-{'cinch' if compressed else 'plain'}"
    metrics_file, report_file, log_file = (stem.with_suffix(s) for s in (".json", ".report.json", ".log"))
    for file in (metrics_file, report_file):
        file.unlink(missing_ok=True)
    command = [sys.executable, str(ROOT / example.script), "--seed", str(seed), "--json", str(metrics_file)]
    command += example.quick if quick else ()
    if compressed:
        command = [str(CINCH), "run", "--policy", POLICY, "--report", str(report_file), "--"] + command

    print(f"{example.name}: seed {seed}, {'under cinch' if compressed else 'plain'} …", flush=True)
    start = time.perf_counter()
    with open(log_file, "wb") as log:
        status = subprocess.run(command, env=environment(), stdout=log, stderr=subprocess.STDOUT).returncode
    wall_seconds = time.perf_counter() - start
    if status != 0:
        end = "\n".join("  " + line for line in log_file.read_text(errors="replace").splitlines()[-15:])
        raise DemoError(f"{end}\n{example.script} ended with {status} (the whole log: {log_file})")

    metrics = json.loads(metrics_file.read_text()) | {"seed": seed, "wall_seconds": wall_seconds}
    if compressed:
        if not report_file.exists():
            raise DemoError(f"Cinch left no report in {report_file}: it was not active")
        metrics["report"] = json.loads(report_file.read_text())
        if not metrics["report"]["active"]:
            raise DemoError(f"Cinch was not active: {metrics['report']['inactive_reason']}")
    return metrics


def run_pairs(example: Example, repeat: int, quick: bool) -> list[dict]:
    pairs = []
    for seed in range(repeat):
        pair = {}
        for compressed in (False, True) if seed % 2 == 0 else (True, False):
            pair["cinch" if compressed else "plain"] = run(example, seed, compressed, quick)
        pairs.append(pair)
    return pairs


def summarize(example: Example, pairs: list[dict]) -> dict:
    """Medians over the pairs; ratios and differences are medians of paired values."""

    def median(side: str, field: str) -> float:
        return statistics.median(pair[side][field] for pair in pairs)

    def paired(field: str) -> float:
        return statistics.median(pair["cinch"][field] / pair["plain"][field] for pair in pairs)

    def reported(field: str) -> float:
        return statistics.median(pair["cinch"]["report"][field] for pair in pairs)

    sign = 1 if example.higher_is_better else -1
    fields = (example.score_field, "peak_rss_bytes", "peak_rss_growth_bytes", "train_seconds", "wall_seconds")
    summary = {side: {field: median(side, field) for field in fields} for side in ("plain", "cinch")}
    summary["score_loss"] = statistics.median(
        sign * (pair["plain"][example.score_field] - pair["cinch"][example.score_field]) * example.score_scale
        for pair in pairs
    )
    summary["raw_bytes_at_peak"] = reported("raw_bytes_at_peak")
    summary["stored_bytes_at_peak"] = reported("stored_bytes_at_peak")
    summary["ratio"] = reported("ratio")
    summary["seconds_in_cinch"] = reported("seconds_in_cinch")
    summary["growth_ratio"] = paired("peak_rss_growth_bytes")
    summary["train_time_ratio"] = paired("train_seconds")
    summary["wall_time_ratio"] = paired("wall_seconds")
    return summary


def check_targets(example: Example, summary: dict) -> list[dict]:
    """Each target with what was reached."""
    targets = []

    def target(what: str, reached: float, bound: float | None, at_least: bool = False):
        if bound is not None:
            met = reached >= bound if at_least else reached <= bound
            targets.append({"what": what, "reached": reached, "bound": bound, "at_least": at_least, "met": met})

    target("ratio", summary["ratio"], example.least_ratio, at_least=True)
    target(f"{example.score_label} lost", summary["score_loss"], example.largest_score_loss)
    target("growth of peak RSS, cinch / plain,", summary["growth_ratio"], example.largest_growth)
    target("training time, cinch / plain,", summary["train_time_ratio"], example.largest_time)
    return targets


def mebibytes(count: float) -> str:
    return f"{count / 2**20:,.0f} MiB"


def render(example: Example, summary: dict, targets: list[dict], pairs: int) -> str:
    plain, cinch = summary["plain"], summary["cinch"]

    def score(side: dict) -> str:
        return f"{side[example.score_field] * example.score_scale:.2f} {example.score_unit}".rstrip()

    score_change = cinch[example.score_field] - plain[example.score_field]
    rows = [
        ("", "plain", f"cinch ({POLICY})", ""),
        (example.score_label, score(plain), score(cinch), f"{score_change * example.score_scale:+.2f}"),
        (
            "activations kept at peak",
            mebibytes(summary["raw_bytes_at_peak"]),
            mebibytes(summary["stored_bytes_at_peak"]),
            f"ratio {summary['ratio']:.2f}",
        ),
        ("peak RSS", mebibytes(plain["peak_rss_bytes"]), mebibytes(cinch["peak_rss_bytes"]), ""),
        (
            "  growth after imports",
            mebibytes(plain["peak_rss_growth_bytes"]),
            mebibytes(cinch["peak_rss_growth_bytes"]),
            f"{summary['growth_ratio']:.2f} x",
        ),
    ]
    for label, field, ratio in (
        ("training time", "train_seconds", "train_time_ratio"),
        ("whole program", "wall_seconds", "wall_time_ratio"),
    ):
        rows.append((label, f"{plain[field]:.1f} s", f"{cinch[field]:.1f} s", f"{summary[ratio]:.2f} x"))
    rows.append(("  of it in Cinch", "", f"{summary['seconds_in_cinch']:.1f} s", ""))

    medians = f", medians of {pairs} pairs" if pairs > 1 else ""
    lines = [f"{example.script}{medians}"]
    lines += [f"  {a:<26}{b:>14}{c:>18}   {d}".rstrip() for a, b, c, d in rows]
    for target in targets:
        comparison = "at least" if target["at_least"] else "at most"
        verdict = "met" if target["met"] else "MISSED"
        lines.append(f"  target: {target['what']} {comparison} {target['bound']:.2f}: {target['reached']:.2f}, {verdict}")
    return "\n".join(lines)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Trains the examples plainly and under `cinch run`, and compares them."
    )
    parser.add_argument("--cnn", dest="chosen", action="append_const", const="cnn", help="only the CNN")
    parser.add_argument("--gpt", dest="chosen", action="append_const", const="gpt", help="only the GPT")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="pairs of runs, seeds 0 … N-1 (default 1)")
    parser.add_argument("--quick", action="store_true", help="a few steps only: shows that it works, not how well")
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    if not CINCH.exists():
        print(f"scripts/demo: {CINCH} is missing: run scripts/setup", file=sys.stderr)
        return 1
    LOGS.mkdir(parents=True, exist_ok=True)
    results, texts = {}, []
    try:
        for name in args.chosen or EXAMPLES:
            example = EXAMPLES[name]
            pairs = run_pairs(example, args.repeat, args.quick)
            summary = summarize(example, pairs)
            targets = check_targets(example, summary)
            results[name] = {"summary": summary, "targets": targets, "pairs": pairs}
            texts.append(render(example, summary, targets, len(pairs)))
    except DemoError as error:
        print(f"scripts/demo: {error}", file=sys.stderr)
        return 1
    output = {"policy": POLICY, "quick": args.quick, "examples": results}
    (ROOT / "build/demo.json").write_text(json.dumps(output, indent=2) + "\n")
    print("\n" + "\n\n".join(texts))
    if args.quick:
        print("\n--quick: a few steps only; scores, times and targets above mean little.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
