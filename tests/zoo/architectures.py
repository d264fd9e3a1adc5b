# SPDX-License-Identifier: Apache-2.0
"""Trains other people's architectures for some steps, plainly and under policies, and tells what came of it.

    architectures.py [--libraries NAME …] [--build DIR] [--jobs N] [--only NAME …] [--write FILE.md]

libraries/*.py say which: `names()`, and `make(name)`, a model and a function of its loss. All are made anew, with random
weights and data. Each trains in a child of one process that has imported the library; what can't be made or trained
without Cinch is left out, and counted. The exit status is 1 when a model fails, or trains to other bits, under `lossless`.
"""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import importlib
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import warnings

import zoo
from zoo import POLICIES, ROOT

STEPS = 4
MOST_SECONDS = 150

HEAD = [
    "# Other people's architectures",
    "",
    "Models of other people's libraries, made anew and small, trained for some steps plainly, under `lossless` and under the",
    "default preset. [The zoo](zoo.md) has fewer programs, which train for longer.",
    "",
    "    .venv/bin/python tests/zoo/architectures.py --write docs/architectures.md",
    "",
    "Batches are of 2 images, 4 lines of 64 tokens, or one graph of 2,000 nodes and 8,000 edges, so much is smaller than a policy",
    "takes, or is held in the more bits that small tensors get. Real trainings have higher ratios. A graph's features are",
    "the program's own, and count on both sides of a ratio.",
    "",
]
LIBRARIES = ["timm", "torchvision", "transformers", "diffusers", "geometric"]


def models_of(library: str):
    """The module that makes them; importing it imports the library."""
    return importlib.import_module(f"libraries.{library}")


def train(library: str, name: str) -> dict:
    """In a child: a digest of losses and weights after some steps, or what went wrong."""
    import torch
    from libraries.common import MOST_PARAMETERS

    signal.alarm(MOST_SECONDS)
    torch.manual_seed(0)
    model, loss_of = models_of(library).make(name)
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise ValueError("larger than it was to be")
    model.train()
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    digest = hashlib.sha256()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        digest.update(repr(loss.item()).encode())
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {"digest": digest.hexdigest()}


def serve(library: str, folder: str, names: list[str]) -> None:
    """Trains one after another; child N leaves N.json."""
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    models_of(library)
    for name in names:
        child = os.fork()
        if child != 0:
            os.waitpid(child, 0)
            continue
        try:
            outcome = train(library, name)
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"[:200]}
        pathlib.Path(f"{folder}/{os.getpid()}.json").write_text(json.dumps({"name": name} | outcome))
        return  # as programs end, so that what is registered for the exit runs


def measure(build: pathlib.Path, library: str, policy: str | None, names: list[str]) -> dict[str, dict]:
    """{name: what came of it, with the report of a run under a policy}. Who left nothing is not there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--serve", library, folder, *names]
        if policy is not None:
            cinch = [build / "bin/cinch", "run", "--quiet", "--no-telemetry", "--policy", policy]
            command = [*map(str, cinch), "--report", f"{folder}/%p.report", "--", *command]
        subprocess.run(command, env=zoo.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        found = {}
        for file in pathlib.Path(folder).glob("*.json"):
            outcome = json.loads(file.read_text())
            report = file.with_suffix(".report")
            if report.exists():
                outcome["report"] = json.loads(report.read_text())
            found[outcome["name"]] = outcome
        return found


def largest(report: dict) -> str:
    """What takes most of what is stored."""
    held = sum(op["stored_bytes"] for op in report["ops"])
    most = max(report["ops"], key=lambda op: op["stored_bytes"], default=None)
    if most is None:
        return ""
    return f"{most['stored_bytes'] / held:.0%} {most['op'].removeprefix('aten::')} {most['operand']}, {most['codec']}"


def compare(plain: dict, found: dict[str, dict]) -> tuple[list, collections.Counter, list[str]]:
    """Rows (ratio under the default, name, ratio under lossless, what most is held for), what was left out, and what
    is wrong."""
    rows, left_out, wrong = [], collections.Counter(), []
    for name, outcome in sorted(plain.items()):
        if "error" in outcome:
            left_out[outcome["error"].split(":")[0]] += 1
            continue
        lossless, default = (found[policy].get(name, {"error": "killed"}) for policy in POLICIES)
        if lossless.get("digest") != outcome["digest"]:
            wrong.append(f"`{name}` under `lossless`: {lossless.get('error', 'other bits')}")
        elif "digest" not in default:
            wrong.append(f"`{name}` under the default: {default['error']}")
        elif default["report"]["ratio"] and lossless["report"]["ratio"]:
            rows.append((default["report"]["ratio"], name, lossless["report"]["ratio"], largest(default["report"])))
    return sorted(rows), left_out, wrong


def section(library: str, rows: list, left_out: collections.Counter, wrong: list[str]) -> list[str]:
    means = [statistics.geometric_mean(row[column] for row in rows) if rows else math.nan for column in (2, 0)]
    without = sum(left_out.values())
    reasons = ", ".join(f"{count} {error}" for error, count in left_out.most_common(3))
    return [
        f"**{library}**: {len(rows)} trained to the same bits under `lossless`, at {means[0]:.2f}, and at {means[1]:.1f} under the",
        f"default (geometric means). {without} could not be made so small, or trained so, without Cinch"
        + (f" ({reasons})." if without else "."),
        *(f"Wrong: {each}." for each in wrong),
        "",
        "| least under the default | lossless | default | most is held for |",
        "|---|---:|---:|---|",
        *(f"| `{name}` | {lossless:.2f} | {default:.1f} | {most} |" for default, name, lossless, most in rows[:8]),
        "",
    ]


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="models at a time")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md")
    arguments = parser.parse_args()
    lines, failed = [*HEAD, f"{datetime.date.today().isoformat()}, CPU, {STEPS} steps each.", ""], False
    for library in arguments.libraries:
        names = arguments.only or models_of(library).names()
        found = {}
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for policy in [None, *POLICIES]:
                parts = [names[i :: arguments.jobs] for i in range(arguments.jobs)]
                outcomes = pool.map(lambda part: measure(arguments.build, library, policy, part), parts)
                found[policy] = {name: outcome for each in outcomes for name, outcome in each.items()}
                names = [name for name in names if "digest" in found[None].get(name, {})]
        rows, left_out, wrong = compare(found[None], found)
        failed |= bool(wrong)
        lines += section(library, rows, left_out, wrong)
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        arguments.write.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
