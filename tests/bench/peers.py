#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cinch beside what else saves memory in training: allocators, checkpointing, torch.compile, quantizing hooks in Python.

    .venv/bin/python tests/bench/peers.py [--build build] [--seeds 3] [--models NAME …] [--variants NAME …]
        [--steps N] [--quick] [--json build/peers.json [--resume]] [--write docs/peers.md]
    .venv/bin/python tests/bench/peers.py --show [--json FILE] [--write docs/peers.md]
    .venv/bin/python tests/bench/peers.py --diffs

Each run trains one of four models (peers/program.py) in a process of its own. Every run is kept in the JSON file as soon as
it is done; with --resume, runs that the file has are not made again, and those that failed are. A variant that fails gets
a row that says so. What torch.compile compiled is kept in a folder beside the JSON file, so only the first seed compiles.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE / "peers"))

import changes  # noqa: E402
from child_run import clean_environment  # noqa: E402
from host_allocator import can_preload  # noqa: E402
from kept_runs import KeptRuns  # noqa: E402
from results import activations, render, step_seconds  # noqa: E402
from variants import MODELS, PLAIN, QUICK_STEPS, Variant, default_policy, variants  # noqa: E402


def error_line(status: int, stderr: str) -> str:
    """The line that says why a program failed: of a Python traceback the error's, else the first."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt|Failed)\b", line)]
    line = (errors[-1:] or lines[:1] or [""])[0]
    return line or (f"killed by signal {-status}" if status < 0 else f"exit status {status}")


def start(command: list[str], environment: dict[str, str], seconds: float) -> tuple[int, str]:
    """Runs `command`; it and its children are killed after so many seconds. @return its status and stderr"""
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        said.seek(0)
        text = said.read()
    return (1, f"TimeoutError: not done after {seconds:.0f} s\n") if status is None else (status, text)


def run(model: str, variant: Variant, seed: int, steps: int, threads: int, options) -> dict:
    """One training. @return its figures, or "error" """
    environment = clean_environment() | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": f"{HERE}:{HERE / 'peers'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(options.json.resolve().with_name("peers-inductor")),
    }
    if variant.preload:
        if not can_preload(variant.preload):
            return {"error": f"{variant.preload} is not installed"}
        environment["LD_PRELOAD"] = variant.preload
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        program, out, report = folder / "program.py", folder / "out.json", folder / "report.json"
        program.write_text(changes.changed(variant.change(model)))
        command = [sys.executable, str(program), model, str(seed), str(steps), str(out)]
        if variant.cinch is not None:
            cinch = options.build.resolve() / "bin/cinch"
            if not cinch.is_file():
                return {"error": f"no Cinch: {cinch} is missing"}
            command = [str(cinch), "run", "--report", str(report), *variant.cinch, "--", *command]
        status, stderr = start(command, environment, options.timeout)
        if status != 0 or not out.is_file():
            return {"error": error_line(status, stderr), "stderr": stderr[-4000:]}
        figures = json.loads(out.read_text())
        if variant.cinch is not None:
            told = json.loads(report.read_text()) if report.is_file() else {"active": False, "inactive_reason": "no report"}
            if not told["active"]:
                return {"error": f"Cinch was not active: {told['inactive_reason']}"}
            figures |= {k: told[k] for k in ("policy", "raw_bytes_at_peak", "stored_bytes_at_peak", "seconds_in_cinch")}
    return figures


def study(results: KeptRuns, chosen: dict[str, Variant], options) -> None:
    """Makes the runs that `results` has not got: all variants of a model in turn, all models, then the next seed."""
    for seed in range(options.seeds):
        for model in options.models:
            steps = options.steps or (QUICK_STEPS if options.quick else MODELS[model].steps)
            for name in chosen if seed % 2 == 0 else reversed(chosen):
                made = {"model": model, "variant": name, "seed": seed, "steps": steps, "threads": options.threads}
                if results.has(made):
                    continue
                begin = time.monotonic()
                made |= run(model, chosen[name], seed, steps, options.threads, options)
                made["wall_seconds"] = time.monotonic() - begin
                results.about["torch"] = made.pop("torch", results.about["torch"])
                results.add(made)
                if "error" in made:
                    told = f"failed: {made['error']}"
                else:
                    told = (
                        f"activations {activations(made) / 2**20:.0f} MiB, growth {made['peak_rss_growth_bytes'] / 2**20:.0f} MiB, "
                        f"{1e3 * step_seconds(made):.0f} ms a step, {MODELS[model].metric} {made['metric']:.3f}"
                    )
                print(f"{model}, seed {seed}, {name} ({made['wall_seconds']:.0f} s): {told}", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    build = pathlib.Path(os.environ.get("CINCH_BUILD_DIR", ROOT / "build"))
    parser.add_argument("--build", type=pathlib.Path, default=build)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="besides plain; default: all")
    parser.add_argument("--seeds", type=int, help="default 3; 1 with --quick")
    parser.add_argument("--steps", type=int, help="instead of each model's own number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=900, help="seconds that a run may take")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps: shows that it works, not how well")
    parser.add_argument("--json", type=pathlib.Path, help="default build/peers.json, or build/peers-quick.json")
    parser.add_argument("--resume", action="store_true", help="go on with the file's runs")
    parser.add_argument("--show", action="store_true", help="run nothing, render what the file has")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md", help="the document; default: standard output")
    parser.add_argument("--diffs", action="store_true", help="run nothing, print the changed lines")
    options = parser.parse_args()
    options.seeds = options.seeds if options.seeds is not None else 1 if options.quick else 3
    options.json = options.json or ROOT / ("build/peers-quick.json" if options.quick else "build/peers.json")
    if not options.show and not options.diffs and options.json.exists() and not options.resume:
        parser.error(f"{options.json} has runs already: pass --resume to go on with them, or remove it")
    return options


def main():
    options = parse_arguments()
    known = variants(default_policy(options.build / "bin/cinch"))
    if options.variants and (unknown := set(options.variants) - set(known)):
        sys.exit(f"peers: found variant {sorted(unknown)}, expected some of {list(known)}")
    chosen = {name: v for name, v in known.items() if name == PLAIN or not options.variants or name in options.variants}
    if options.diffs:
        for name, variant in chosen.items():
            change = variant.change(options.models[0])
            print(f"{name}: {changes.touched_lines(change)} lines" + (f", {change.file} among them" if change.file else ""))
            print(changes.diff(change))
        return
    command = shlex.join([".venv/bin/python", "tests/bench/peers.py", *sys.argv[1:]])
    results = KeptRuns.opened(options.json, command, options.threads)
    if not options.show:
        study(results, chosen, options)
    text = render(results, chosen)
    if options.write:
        options.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
