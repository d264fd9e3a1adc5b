#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far each policy's gradients scatter around the exact one: a model on one batch, many draws.

    .venv/bin/python tests/bench/gradient_variance.py [--build build] [--model resnet18] [--variant NAME …]
        [--policy FILE …] [--draws 64] [--training 40] [--warm-up 60] [--json FILE]

One of train_small.py's models, or one of pretrained.py's, is trained for a few steps without Cinch. From there its
weights stay as they are, and every policy sees the same batch again and again: it may adapt for a while, and then each
step's gradients are one draw. Nothing but the codecs' rounding differs between draws: there is one thread, so that
PyTorch's sums are the same, and dropout drops the same elements in every step.

Printed are, of ĝ around the exact gradient g,
* error: the mean of |ĝ - g|² / |g|², over all weights;
* by weight: the mean over the weights' tensors of the same, each relative to its own gradient;
* bias: |mean ĝ - g|² / |g|², less what a mean of so many draws scatters;
* ratio: raw bytes / stored bytes at the peak, without the raw window.

The error means nothing by itself: the mini-batch's own noise is printed first, half of |g' - g|² / |g|² where g' is
the gradient of another batch.

The variants budget_as_NAME are the policy "budget" with as many bytes as the variant NAME took.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import torch

import child_run
from fidelity_table import MODELS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

CHILD = """
import sys
import torch
import pretrained
import train_small

name, state, output, steps, skipped, training = *sys.argv[1:4], *map(int, sys.argv[4:7])
torch.manual_seed(0)
torch.set_num_threads(1)
task = (train_small.TASKS | pretrained.TASKS)[name](0)

def backward(batch):
    task.optimizer.zero_grad()
    loss = task.loss(batch)
    loss.backward()
    return loss

if training:
    for step in range(training):
        backward(task.batch())
        task.optimizer.step()
    torch.save((task.model.state_dict(), task.batch(), task.batch()), state)
weights, batch, another = torch.load(state)
task.model.load_state_dict(weights)
for group in task.optimizer.param_groups:
    group["lr"] = 0.0
parameters = [p for p in task.model.parameters()]
draws = []
for step in range(steps):
    torch.manual_seed(0)  # the same elements are dropped in every step
    loss = backward(batch)
    task.optimizer.step()
    if step >= skipped:
        draws.append(torch.cat([p.grad.flatten().clone() for p in parameters]))
result = {"draws": torch.stack(draws), "sizes": [p.numel() for p in parameters],
          "weights": [p.dim() > 1 for p in parameters], "loss": loss.item()}
if training:
    backward(another)
    result["another"] = torch.cat([p.grad.flatten().clone() for p in parameters])
torch.save(result, output)
"""

# Without the window that stays raw, and without the guard, which would mend what is measured.
BARE = {"raw_window": 0, "guard": {"every_steps": 0}}
ONCE = 1_000_000  # steps between adaptations: the first one counts


def preset(name: str, **more) -> dict:
    content = json.loads((ROOT / f"configs/{name}.json").read_text())
    return {key: value for key, value in content.items() if key != "$schema"} | BARE | more


def uniform_groups(bits: int) -> dict:
    """ActNN's L2 at any number of bits: the policy itself does not go below 3."""
    codec = {"name": "group_quant", "bits": bits}
    rules = [{"match": {"op": op}, "codec": codec} for op in ("aten::*convolution*", "aten::*batch_norm*", "aten::addmm")]
    return preset("actnn", actnn={"level": "L2"}, rules=rules)


def in_groups(dither: str) -> dict:
    """DIVISION with residuals in groups of 256, in the rules of its preset too."""
    content = preset("division")
    return content | {"division": content["division"] | {"group": 256, "dither": dither}}


def mixed(bits: float) -> dict:
    return preset("actnn", actnn={"level": "L3", "bits": bits, "every_steps": ONCE})


def within(stored_bytes: int) -> dict:
    return preset("budget", budget={"peak_bytes": f"{stored_bytes}B", "every_steps": ONCE})


def groups(bits: int, norms: int, smooth: int, attention: int, dither: str = "subtractive", derive: bool = True) -> dict:
    """Groups of 256 at `bits`; inputs of norms at `norms`, of smooth activations at `smooth`, of attention at
    `attention`."""

    def codec(of: int) -> dict:
        return {"codec": {"name": "group_quant", "bits": of, "dither": dither}}

    rules = [{"match": {"op": op, "operand": operand}} | codec(of) for op, operand, of in (
        ("aten::*_norm*", "input", norms), ("aten::gelu", "self", smooth), ("aten::silu", "self", smooth),
        ("aten::_scaled_dot_product*", "*", attention))]
    content = {"policy": "default", "preset_rules": False, "groups": {"bits": bits, "dither": dither}, "derive": {"enabled": derive}}
    return {"version": 1, "rules": rules, "others": {"codec": {"name": "group_quant", "bits": 4}}} | content | BARE


AS = "budget_as_"


def variants() -> dict[str, dict | None]:
    """Policies; None where the variant is a budget of another one's bytes."""
    return {
        "default": preset("default"),
        "division": preset("division"),
        "division_groups": in_groups("nonsubtractive"),
        "division_groups_dithered": in_groups("subtractive"),
        "groups_4": groups(4, 4, 4, 4),
        "groups_4_stored": groups(4, 4, 4, 4, derive=False),
        "groups_4_stochastic": groups(4, 4, 4, 4, "nonsubtractive"),
        "groups_3": groups(3, 3, 3, 3),
        "groups_3_norms_4": groups(3, 4, 3, 4),
        "groups_2_norms_4": groups(2, 4, 2, 4),
        "groups_2_norms_3": groups(2, 3, 2, 4),
        "blpa_4bit": preset("blpa"),
        "acgc": preset("acgc", acgc={"every_steps": ONCE}),
        "acgc_AutoCuSZ": preset("acgc", acgc={"codec": "AutoCuSZ", "every_steps": ONCE}),
        "acgc_expected": preset("acgc", acgc={"mode": "expected", "every_steps": ONCE}),
        "actnn_L2_4bit": preset("actnn", actnn={"level": "L2"}),
        "actnn_L3_4bit": mixed(4),
        "actnn_L2_3bit": preset("actnn", actnn={"level": "L2", "fixed_bits": 3}),
        "actnn_L3_3bit": mixed(3),
        "actnn_L2_2bit": uniform_groups(2),
        "actnn_L3_2bit": mixed(2),
        "actnn_L3_1.5bit": mixed(1.5),
        "actnn_L2_1bit": uniform_groups(1),
    } | {AS + name: None for name in ("default", "actnn_L3_4bit", "division", "actnn_L3_2bit", "actnn_L3_1.5bit")}


def with_needed(names: list[str]) -> list[str]:
    """Before a budget of another variant's bytes, that variant."""
    ordered = []
    for name in names:
        ordered += [name.removeprefix(AS), name] if name.startswith(AS) else [name]
    return list(dict.fromkeys(ordered))


class Bench:
    def __init__(self, options, folder: pathlib.Path):
        self.options = options
        self.folder = folder
        self.preload = str((options.build / "lib/libcinch.so").resolve(strict=True))

    def run(self, name: str, policy: dict | None, steps: int, skipped: int, training: int = 0) -> dict:
        output = self.folder / f"{name}.pt"
        state = self.folder / "state.pt"
        command = [sys.executable, "-c", CHILD, self.options.model, state, output, steps, skipped, training]
        done, report = child_run.run(command, self.folder, name, self.preload, policy, PYTHONPATH=str(HERE), TQDM_DISABLE="1")
        if done.stderr:
            print(done.stderr, end="", file=sys.stderr)
        result = torch.load(output)
        if report is not None:
            result["report"] = report
        return result


def measured(result: dict, exact: dict) -> dict:
    """Weight by weight: all draws of a large model in double precision would not fit."""
    if result["loss"] != exact["loss"]:
        raise SystemExit("the forward was touched")
    sizes = exact["sizes"]
    count = len(result["draws"])
    errors, offset, scatter, size = torch.zeros(count, dtype=torch.double), 0.0, 0.0, 0.0
    by_weight = []
    for of_exact, of_draws, is_weight in zip(exact["draws"][0].split(sizes), result["draws"].split(sizes, dim=1), exact["weights"]):
        g, draws = of_exact.double(), of_draws.double()
        mean = draws.mean(0)
        of_weight = (draws - g).square().sum(1)
        errors += of_weight
        offset += (mean - g).square().sum().item()
        scatter += (draws - mean).square().sum().item() / (count - 1)
        size += g.square().sum().item()
        if is_weight:
            by_weight.append((of_weight.mean() / g.square().sum()).item())
    errors /= size
    report = result["report"]
    return {
        "error": errors.mean().item(),
        "standard_error": errors.std().item() / count**0.5,
        "by_weight": sum(by_weight) / len(by_weight),
        "each_weight": by_weight,
        "bias": max(offset - scatter / count, 0.0) / size,
        "ratio": report["ratio"],
        "stored": report["stored_bytes_at_peak"],
        "entries": [{k: e[k] for k in ("op", "operand", "shape", "codec", "raw_bytes", "stored_bytes")} for e in report.get("entries", [])],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", choices=MODELS, default="resnet18")
    parser.add_argument("--variant", nargs="+", choices=variants(), default=[], metavar="NAME", help="default: all, or none with --policy")
    parser.add_argument("--policy", type=pathlib.Path, nargs="+", default=[], help="policy files, as further variants")
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--training", type=int, default=40, help="steps before the measurement")
    parser.add_argument("--warm-up", type=int, default=60, help="steps in which a policy may adapt")
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    options = parser.parse_args()
    done = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(options, pathlib.Path(name))
        exact = bench.run("plain", None, 2, 0, options.training)
        if not exact["draws"][0].equal(exact["draws"][1]):
            raise SystemExit("the exact gradient is not the same twice")
        g = exact["draws"][0].double()
        noise = (exact["another"].double() - g).square().sum() / g.square().sum() / 2
        print(f"{options.model}: noise of a mini-batch {noise:.2f}")
        print(f"{'variant':26} {'error':>16} {'by weight':>10} {'bias':>8} {'ratio':>6}", flush=True)
        files = {file.stem: json.loads(file.read_text()) | BARE for file in options.policy}
        chosen = options.variant or ([] if files else list(variants()))
        for variant in with_needed([*chosen, *files]):
            policy = (variants() | files)[variant] or within(done[variant.removeprefix(AS)]["stored"])
            result = bench.run(variant, policy, options.warm_up + options.draws, options.warm_up)
            row = done[variant] = measured(result, exact)
            error = f"{row['error']:.4f} ± {row['standard_error']:.4f}"
            print(f"{variant:26} {error:>16} {row['by_weight']:10.4f} {row['bias']:8.4f} {row['ratio']:6.2f}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(done))


if __name__ == "__main__":
    main()
