# SPDX-License-Identifier: Apache-2.0
"""Trains every program of the zoo plainly and under `cinch run`, and writes down what came of it.

    zoo.py [--programs NAME …] [--seeds N] [--also POLICY …] [--write docs/zoo.md]

Each program is a process of its own for each seed and policy, as its user would start it. What was measured is kept
in build/zoo.json, from which --resume goes on. The exit status is 1 when a program failed, or when one printed
something else under `lossless` than without Cinch.
"""

import argparse
import ast
import concurrent.futures
import datetime
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"
POLICIES = ["lossless", "default"]
MIB = 1 << 20


def names() -> list[str]:
    return sorted(file.stem for file in PROGRAMS.glob("*.py") if file.stem != "data")


def title(name: str) -> str:
    return ast.get_docstring(ast.parse((PROGRAMS / f"{name}.py").read_text())).rstrip(".")


def environment() -> dict[str, str]:
    """The caller's, without anything that would load or steer Cinch, and the same for every run."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
    return env | {
        "OMP_WAIT_POLICY": "PASSIVE",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
    }


def run(build: pathlib.Path, name: str, seed: int, policy: str | None) -> dict:
    """One training: what it printed, how long it took and, under a policy, the report of what saved most."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(PROGRAMS / f"{name}.py"), str(seed)]
        if policy is not None:
            report = f"{folder}/%p.json"
            cinch = [build / "bin/cinch", "run", "--quiet", "--strict", "--no-telemetry", "--policy", policy]
            command = [*map(str, cinch), "--report", report, "--", *command]
        start = time.monotonic()
        done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=900)
        result = {
            "seconds": time.monotonic() - start,
            "status": done.returncode,
            "printed": re.findall(r"^(?:step|metric) .*$", done.stdout, re.M),
            "stderr": done.stderr[-2000:],
        }
        reports = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("*.json")]
        if policy is not None and reports:
            result["report"] = max(reports, key=lambda each: each["raw_bytes_at_peak"])
        return result


def metric(result: dict) -> tuple[str, float]:
    """What a training came to, and the name of that."""
    for line in result["printed"]:
        if line.startswith("metric "):
            _, name, value = line.split()
            return name, float(value)
    return "", math.nan


def ratio(result: dict) -> float:
    """NaN where no process wrote a report: one that ends by os._exit() does not."""
    return result.get("report", {}).get("ratio") or math.nan


def largest(report: dict) -> str:
    """Where most of what is held under a policy goes, and what is not compressed most."""
    held = sum(op["stored_bytes"] for op in report["ops"])
    told = []
    for op in sorted(report["ops"], key=lambda op: -op["stored_bytes"])[:2]:
        if op["stored_bytes"] * 5 > held:
            told.append(f"{op['stored_bytes'] / held:.0%} {op['op'].removeprefix('aten::')} {op['operand']}, {op['codec']}")
    return "; ".join(told)


def passed(report: dict) -> str:
    """What was saved uncompressed most, and why; nothing where that is little."""
    seen = sum(op["raw_bytes"] for op in report["ops"]) + sum(each["bytes"] for each in report["passed_through"])
    most = max(report["passed_through"], key=lambda each: each["bytes"], default=None)
    return f"{most['bytes'] / seen:.0%} {most['reason']}" if most and most["bytes"] * 20 > seen else ""


def number(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def row(name: str, results: dict, seeds: int) -> str:
    plain = [metric(results[f"plain {seed}"])[1] for seed in range(seeds)]
    lossy = [metric(results[f"default {seed}"])[1] for seed in range(seeds)]
    difference = statistics.mean(lossy) - statistics.mean(plain)
    deviation = statistics.stdev(plain) if seeds > 1 else math.nan
    report = results["default 0"].get("report", {"ops": [], "passed_through": [], "raw_bytes_at_peak": 0})
    lossless = results["lossless 0"]
    same = "yes" if lossless["printed"] == results["plain 0"]["printed"] else "NO"
    cells = [
        f"`{name}`",
        f"{report['raw_bytes_at_peak'] / MIB:.1f}",
        number(ratio(lossless), ".2f"),
        same,
        number(ratio(results["default 0"]), ".1f"),
        f"{metric(results['plain 0'])[0].replace('_', ' ')} {statistics.mean(plain):.4g}",
        number(deviation, ".2g"),
        number(difference, "+.2g"),
        largest(report),
        passed(report),
    ]
    return "| " + " | ".join(cells) + " |"


def mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.geometric_mean(known) if known else math.nan


def endings(measured: dict, known: list[str], also: list[str]) -> str:
    """How the programs ended under policies of which nothing else is told."""
    if not also:
        return ""
    failed = [f"`{name}` under `{policy}`" for name in known for policy in also if measured[name][f"{policy} 0"]["status"] != 0]
    policies = ", ".join(f"`{policy}`" for policy in also)
    return f"Under {policies} {'all end' if not failed else 'all end but ' + ', '.join(failed)}."


def page(measured: dict, seeds: int, command: str, also: list[str]) -> str:
    known = [name for name in names() if name in measured]
    lossless = mean([ratio(measured[name]["lossless 0"]) for name in known])
    default = mean([ratio(measured[name]["default 0"]) for name in known])
    torch_version = measured[known[0]]["lossless 0"]["report"]["torch_version"]
    least = [name for name in known if ratio(measured[name]["default 0"]) < 2]
    lines = [
        "# The zoo",
        "",
        f"{len(known)} programs of many kinds (`tests/zoo/programs`), each trained plainly, under `lossless` and under",
        "the default preset. They are small and use libraries through their public interfaces; none knows of Cinch.",
        "",
        "    " + command,
        "",
        f"{datetime.date.today().isoformat()}, CPU, torch {torch_version}, {seeds} seed{'s' if seeds > 1 else ''}."
        + ("" if seeds > 1 else " With one, the difference of trainings as short as these is mostly chance."),
        f"Geometric mean of the ratios: **{lossless:.2f}** under `lossless`, **{default:.2f}** under the default.",
        f"Below 2 under the default: {', '.join(f'`{name}`' for name in least) or 'none'}.",
        endings(measured, known, also),
        "",
        "- **MiB**: activations at the peak, uncompressed. **same**: whether every loss that is printed under `lossless`",
        "  has the bits that it has without Cinch.",
        "- **plain**: the metric without Cinch, mean over the seeds; **±**: its standard deviation over them;",
        "  **difference**: the mean under the default less that.",
        "- **most is held for**: which operators' operands take most of the bytes that are stored under the default.",
        "- **–**: with one seed there is no deviation; where no process wrote a report (`hogwild`'s end by `os._exit()`)",
        "  there is no ratio.",
        "- **not compressed**: the most frequent reason, with its share of all bytes that were saved, from 5 % on.",
        "",
        "| program | MiB | lossless | same | default | plain | ± | difference | most is held for | not compressed |",
        "|---|---:|---:|---|---:|---|---:|---:|---|---|",
        *(row(name, measured[name], seeds) for name in known),
        "",
        "What they are:",
        "",
        *(f"- `{name}`: {title(name)}." for name in known),
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="+", choices=names(), default=names(), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--also", nargs="+", default=[], metavar="POLICY", help="policies under which each has to end")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="programs at a time")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--resume", action="store_true", help="do not repeat what build/zoo.json has")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    kept = build / "zoo.json"
    measured = json.loads(kept.read_text()) if arguments.resume and kept.exists() else {}
    wanted = [("plain", seed) for seed in range(arguments.seeds)] + [("lossless", 0)]
    wanted += [("default", seed) for seed in range(arguments.seeds)] + [(policy, 0) for policy in arguments.also]

    def measure(name: str) -> bool:
        results = measured.get(name, {})
        for policy, seed in wanted:
            key = f"{policy} {seed}"
            if results.get(key, {}).get("status") == 0:
                continue
            results[key] = run(build, name, seed, None if policy == "plain" else policy)
            if results[key]["status"] != 0:
                print(f"{name}, {key}: exit status {results[key]['status']}\n{results[key]['stderr']}", file=sys.stderr)
        measured[name] = results
        kept.write_text(json.dumps(measured.copy()))
        print(row(name, results, arguments.seeds), flush=True)
        good = all(results[f"{policy} {seed}"]["status"] == 0 for policy, seed in wanted)
        return good and results["lossless 0"]["printed"] == results["plain 0"]["printed"] != []

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        failed = list(pool.map(measure, arguments.programs)).count(False)
    if arguments.write:
        command = ".venv/bin/python tests/zoo/zoo.py " + " ".join(sys.argv[1:])
        arguments.write.write_text(page(measured, arguments.seeds, command, arguments.also))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
