# SPDX-License-Identifier: Apache-2.0
"""The fidelity study's models, and its one table."""

import math
import pathlib
import statistics
from typing import NamedTuple

from kept_runs import KeptRuns

PLAIN = "plain"
# Plain, but for one weight's last bit: how far trainings differ by chance.
NUDGED = "nudged"


class Model(NamedTuple):
    title: str
    steps: int
    unit: str  # of the metric
    digits: int  # of the metric, after the point
    loss_digits: int
    program: str = "train_small.py"  # which trains it, in this folder


# train_small.py and pretrained.py have them, and import torch.
MODELS = {
    "cnn": Model("CNN", 300, "%", 2, 4),
    "resnet18": Model("ResNet-18 / 4", 200, "%", 2, 4),
    "convnext": Model("ConvNeXt-tiny", 300, "%", 2, 4),
    "vit": Model("ViT-tiny", 500, "%", 2, 4),
    "gpt": Model("GPT", 300, "bits a byte", 4, 4),
    "gpt_eager": Model("GPT, attention written out", 300, "bits a byte", 4, 4),
    "gpt_words": Model("GPT of words", 300, "bits a word", 4, 4),
    "llama": Model("Llama", 300, "bits a byte", 4, 4),
    "lstm": Model("LSTM", 400, "bits a byte", 4, 4),
    "bert": Model("BERT-tiny", 700, "%", 2, 4),
    "unet": Model("U-Net", 160, "dB", 3, 5),
    "diffusion": Model("Diffusion U-Net", 300, "squared error", 5, 5),
    "minilm": Model("MiniLM, fine-tuned", 100, "nats a pair", 4, 4, "pretrained.py"),
    "smollm2": Model("SmolLM2, fine-tuned", 75, "nats a token", 4, 4, "pretrained.py"),
}

HEADS = ["model", "plain (sd)", "policy", "seeds", "difference", "test loss", "ratio", "without what is read first", "time in Cinch"]
BEGIN = "<!-- From here to the end mark, tests/bench/fidelity.py --write has written this. -->"
END = "<!-- The end of what tests/bench/fidelity.py writes. -->"


def number(value: float, digits: int, sign: str = "") -> str:
    """With a true minus sign, which zero never has."""
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}".replace("-", "−")


def mean_and_error(values: list[float], digits: int) -> str:
    """The mean and its standard error; of one value no error can be told, and nothing but zeros is said to be that."""
    if not any(values):
        return "0"
    mean = number(statistics.mean(values), digits, "+")
    if len(values) < 2:
        return mean
    return f"{mean} ± {number(statistics.stdev(values) / math.sqrt(len(values)), digits)}"


def with_deviation(values: list[float], digits: int, unit: str) -> str:
    mean = f"{number(statistics.mean(values), digits)} {unit}"
    return f"{mean} (sd {number(statistics.stdev(values), digits)})" if len(values) > 1 else mean


def differences(runs: list[dict], plain: dict[int, dict], figure: str) -> list[float]:
    """Of each run and the plain one of the same seed."""
    return [run[figure] - plain[run["seed"]][figure] for run in runs]


def of_each_seed(runs: list[dict], variant: str) -> dict[int, dict]:
    return {run["seed"]: run for run in runs if run["variant"] == variant and "error" not in run}


def row(variant: str, runs: list[dict], plain: dict[int, dict], model: Model) -> list[str]:
    """The cells after the model's own. @param runs Of the variant, each with a plain one of its seed"""

    def mean(figure: str) -> float:
        return statistics.mean(run[figure] for run in runs)

    def of_cinch() -> list[str]:
        time = f"{100 * mean('share'):.1f} %"
        if mean("learning") >= 0.0005:
            time += f" ({100 * mean('learning'):.1f} % adapting)"
        return [f"{mean('ratio'):.1f}", f"{mean('rest'):.1f}", time]

    metric_is_loss = all(run["metric"] == run["loss"] for run in plain.values())
    return [
        f"`{variant}`",
        str(len(runs)),
        mean_and_error(differences(runs, plain, "metric"), model.digits),
        "the same" if metric_is_loss else mean_and_error(differences(runs, plain, "loss"), model.loss_digits),
        *(["–"] * 3 if variant == NUDGED else of_cinch()),
    ]


def groups(runs: list[dict]) -> list[tuple[str, int]]:
    """The models and their numbers of steps that `runs` are of."""
    return sorted({(run["model"], run["steps"]) for run in runs}, key=lambda of: (list(MODELS).index(of[0]), of[1]))


def notes(title: str, variant: str, made: list[dict]) -> list[str]:
    """What the row of a variant does not say."""
    told = []
    failed = [run for run in made if "error" in run]
    if failed:
        told.append(f"* {title}, `{variant}`: {len(failed)} of {len(made)} runs failed: {failed[0]['error'].splitlines()[0]}")
    guard = sum(run.get("guard_lines", 0) for run in made)
    if guard:
        told.append(f"* {title}, `{variant}`: the guard reported {guard} time{'s' * (guard > 1)} in {len(made)} runs.")
    return told


def means(ratios: dict[str, list[float]]) -> str:
    told = [f"`{variant}` {statistics.geometric_mean(of):.1f} ({len(of)})" for variant, of in ratios.items() if of]
    return f"Geometric means of the ratios (over so many rows): {', '.join(told)}."


def render(kept: KeptRuns, variants: list[str]) -> str:
    """When, where and how the runs were made, and the table of them. @param variants In the order of their rows"""
    dates = sorted({run["date"] for run in kept.runs})
    when = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else kept.about["date"]
    lines = [
        f"{when}; {kept.about['machine']}; torch {kept.about['torch']}; one thread a run:",
        "",
        f"    {kept.about['command']}",
        "",
        "| " + " | ".join(HEADS) + " |",
        "|---|---|---|---:|---|---|---:|---:|---|",
    ]
    said, ratios = [], {variant: [] for variant in variants}
    for name, steps in groups(kept.runs):
        model = MODELS[name]
        title = model.title if steps == model.steps else f"{model.title}, {steps} steps"
        of_model = [run for run in kept.runs if (run["model"], run["steps"]) == (name, steps)]
        plain = of_each_seed(of_model, PLAIN)
        first = [title, with_deviation([run["metric"] for run in plain.values()], model.digits, model.unit)] if plain else []
        for variant in [PLAIN, *variants]:
            said += notes(title, variant, [run for run in of_model if run["variant"] == variant])
            runs = [run for seed, run in of_each_seed(of_model, variant).items() if seed in plain]
            if variant == PLAIN or not runs:
                continue
            lines.append("| " + " | ".join([*first, *row(variant, runs, plain, model)]) + " |")
            if variant != NUDGED:
                ratios[variant].append(statistics.mean(run["ratio"] for run in runs))
            first = ["", ""]
    if any(ratios.values()):
        lines += ["", means(ratios)]
    return "\n".join(lines + ([""] + said if said else [])) + "\n"


def around_the_marks(document: pathlib.Path) -> tuple[str, str]:
    """What stands before and after them. Throws ValueError unless both are there once, the end mark last."""
    text = document.read_text()
    for mark in (BEGIN, END):
        if text.count(mark) != 1:
            raise ValueError(f"{document}: found {text.count(mark)} times, expected once: {mark}")
    before, _, rest = text.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"{document}: the end mark comes first")
    return before, rest.partition(END)[2]


def put(table: str, document: pathlib.Path) -> None:
    """Puts `table` between the marks of `document`."""
    before, after = around_the_marks(document)
    document.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")
