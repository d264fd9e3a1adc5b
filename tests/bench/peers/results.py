# SPDX-License-Identifier: Apache-2.0
"""The study's runs as a document."""

import statistics
import textwrap

import changes
from kept_runs import KeptRuns
from variants import MODELS, PLAIN, WARM_UP, Variant


def activations(run: dict) -> int:
    """Bytes kept for backward at the peak. What Cinch did not take counts in full."""
    if "stored_bytes_at_peak" not in run:
        return run["saved_bytes"]
    return run["stored_bytes_at_peak"] + max(0, run["saved_bytes"] - run["raw_bytes_at_peak"])


def step_seconds(run: dict) -> float:
    return statistics.median(run["step_seconds"][WARM_UP:] or run["step_seconds"][-1:])


def mebibytes(count: float) -> str:
    return f"{count / 2**20:,.0f}"


def with_ratio(text: str, runs: list[dict], plain: dict[int, dict], figure) -> str:
    """`text` and the median of `figure` over plain's of the same seed."""
    ratios = [figure(run) / figure(plain[run["seed"]]) for run in runs if run["seed"] in plain]
    return f"{text} ({statistics.median(ratios):.2f} x)" if ratios else text


def row(name: str, variant: Variant, model: str, runs: list[dict], plain: dict[int, dict]) -> list[str]:
    good = [run for run in runs if "error" not in run]
    lines = str(changes.touched_lines(variant.change(model)))
    if not good:
        why = runs[0]["error"] if runs else "not run"
        return [name, f"failed: {why}" if runs else why, "", "", "", "", lines]

    def median(figure) -> float:
        return statistics.median(figure(run) for run in good)

    def ratio(text, figure):
        return text if name == PLAIN else with_ratio(text, good, plain, figure)

    def growth(run):
        return run["peak_rss_growth_bytes"]

    metric = f"{median(lambda r: r['metric']):.{MODELS[model].digits}f}"
    differences = [run["metric"] - plain[run["seed"]]["metric"] for run in good if run["seed"] in plain]
    if name != PLAIN and differences:
        metric += f" ({statistics.median(differences):+.{MODELS[model].digits}f})"
    return [
        name,
        ratio(mebibytes(median(activations)), activations),
        mebibytes(median(lambda r: r["peak_rss_bytes"])),
        ratio(mebibytes(median(growth)), growth),
        ratio(f"{1e3 * median(step_seconds):.0f}", step_seconds),
        metric,
        lines,
    ]


def first_step(runs) -> float:
    return statistics.median(run["step_seconds"][0] for run in runs)


def seconds_between(values) -> str:
    values = list(values)
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} s" if low == high else f"{low} to {high} s"


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, subsequent_indent="  " * text.startswith("* "), break_long_words=False, break_on_hyphens=False)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table(model: str, runs: list[dict], variants: dict[str, Variant]) -> list[str]:
    heads = ["", "activations at the peak, MiB", "peak RSS, MiB", "growth after imports, MiB", "step, ms", MODELS[model].metric, "lines changed"]  # fmt: skip
    of = {name: [run for run in runs if run["variant"] == name] for name in variants}
    plain = {run["seed"]: run for run in of[PLAIN] if "error" not in run}
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += ["| " + " | ".join(map(cell, row(name, v, model, of[name], plain))) + " |" for name, v in variants.items()]
    notes = []
    for name, made in of.items():
        failed = [run for run in made if "error" in run]
        good = [run for run in made if "error" not in run]
        if failed and good:
            notes.append(f"* {name}: {len(failed)} of {len(made)} runs failed: {failed[0]['error']}")
        if good and plain and first_step(good) > 5 * first_step(plain.values()):
            notes.append(f"* {name}: the first step took {seconds_between(run['step_seconds'][0] for run in good)}.")
    return lines + ([""] + notes if notes else [])


def render(results: KeptRuns, variants: dict[str, Variant]) -> str:
    about = results.about
    seeds = sorted({run["seed"] for run in results.runs})
    medians = f"medians over {len(seeds)} seeds" if len(seeds) != 1 else "of one seed"
    threads = f"{about['threads']} thread" + "s" * (about["threads"] != 1)
    lines = [
        "# Cinch and what else saves memory",
        "",
        *wrapped(
            "The same training plainly, with what PyTorch and its users have against memory, and under Cinch. Each run is a process "
            f"of its own; variants run in turn, in an order that reverses with every seed. Figures are {medians}, in brackets what "
            "they are to plain's of the same seed. `tests/bench/peers.py` makes this page."
        ),
        "",
        *wrapped(f"{about['date']}; {about['machine']}; torch {about['torch']}; {threads}, `OMP_WAIT_POLICY=PASSIVE`:"),
        "",
        f"    {about['command']}",
        "",
        *wrapped("* *Activations at the peak*: bytes that are kept for backward when they are most, of every storage once, without parameters."),
        *wrapped("* *Peak RSS* is the process's until training ends; *growth* is from after its imports."),
        *wrapped(f"* *Step* is the median step after the first {WARM_UP}."),
        *wrapped(
            "* *Lines changed* are those that a user adds or changes, without blank lines and comments. Changes are made in the text of "
            "`tests/bench/peers/program.py`, which is then run; `tests/bench/peers.py --diffs` shows them."
        ),
    ]  # fmt: skip
    for model in MODELS:
        runs = [run for run in results.runs if run["model"] == model]
        if runs:
            steps = sorted({run["steps"] for run in runs})
            lines += ["", f"## {MODELS[model].title}", "", *wrapped(f"{MODELS[model].data}; {' or '.join(map(str, steps))} steps."), ""]
            lines += table(model, runs, variants)
    lines += ["", "## The rows", ""]
    for name, variant in variants.items():
        lines += wrapped(f"* **{name}**: {variant.note}")
    return "\n".join(lines) + "\n"
