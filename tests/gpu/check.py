# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can prove, stage by stage (docs/gpu.md). Run it as scripts/gpu-check."""

import argparse
import dataclasses
import datetime
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import builds
from context import Context, NotHere, Row, fake_environment

ROOT = builds.ROOT
# Shares of the time that all stages together may take, by what they have to do.
STAGES = {"codecs": 70, "bandwidth": 45, "allocator": 70, "train": 165, "overlap": 45, "rescue": 40, "faults": 35}
FAKE_MARK = "FAKE CUDA, tiny sizes: a test of gpu-check itself. Its figures say nothing of a GPU or of Cinch."


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description="Runs what only a GPU can prove (docs/gpu.md): a table last, and JSON."
    )
    parser.add_argument("stages", metavar="STAGE", nargs="*", help=f"of {', '.join(STAGES)} (default: all)")
    parser.add_argument("--seconds", type=float, help="for all stages together (default 465; 1200 on the fake)")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only this network, in stages that train")
    parser.add_argument("--output", type=pathlib.Path, help="folder for gpu-check.json and gpu-check.log")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder to use as it is")
    parser.add_argument("--rebuild", action="store_true", help="build here even if the bundle's build would do")
    parser.add_argument("--prebuilt", action="store_true", help="use the bundle's build even if it is of other sources")
    parser.add_argument("--fake", action="store_true", help="on the fake CUDA runtime, with tiny sizes: tests gpu-check itself")
    options = parser.parse_intermixed_args()
    options.seconds = options.seconds or (1200 if options.fake else 465)
    unknown = [stage for stage in options.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    from cases import CASES

    if any(case not in CASES for case in options.case):
        parser.error(f"no such network; there are {', '.join(CASES)}")
    return options


def find_build(options: argparse.Namespace, log: pathlib.Path) -> tuple[pathlib.Path, str]:
    """The build under test, and a word on where it comes from."""
    if options.build:
        return options.build.resolve(), "as named"
    if options.fake:
        return ROOT / "build", "this machine's"
    fault = "asked for" if options.rebuild else builds.prebuilt_fault()
    if fault is None or (options.prebuilt and (builds.BUNDLE / "build").is_dir()):
        return builds.BUNDLE / "build", "the bundle's" + (f" although {fault}" if fault else "")
    print(f"gpu-check: building here: {fault}", flush=True)
    start = time.monotonic()
    build = builds.make(log)
    return build, f"built here in {time.monotonic() - start:.0f} s: {fault}"


def device(options: argparse.Namespace, build: pathlib.Path) -> dict:
    """What the GPU says of itself, asked in a process of its own; {} without one."""
    ask = """import json, torch
p = torch.cuda.get_device_properties(0)
print(json.dumps({"name": p.name, "memory": p.total_memory, "capability": [p.major, p.minor],
                  "torch": torch.__version__, "cuda": torch.version.cuda}))"""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if options.fake:
        env = fake_environment(build, env, 4 << 30)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ask], env=env, capture_output=True, text=True)
    if done.returncode != 0:
        return {}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if shutil.which("nvidia-smi") and not options.fake:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        found["driver"] = subprocess.run(query, capture_output=True, text=True).stdout.strip().split("\n")[0]
    return found


def table(rows: list[Row]) -> str:
    """One line a row: stage, verdict, what, figure, target."""
    widths = [max([len(getattr(row, field)) for row in rows], default=0) for field in ("stage", "verdict", "what")]
    lines = []
    for row in rows:
        head = "  ".join(getattr(row, f).ljust(w) for f, w in zip(("stage", "verdict", "what"), widths))
        lines.append(f"{head}  {row.figure}" + (f"  (target: {row.target})" if row.target else ""))
    return "\n".join(lines)


def main() -> int:
    options = parsed()
    chosen = [stage for stage in STAGES if not options.stages or stage in options.stages]
    out = options.output or pathlib.Path(os.environ.get("OUT") or ROOT / "build-gpu-check/results")
    out.mkdir(parents=True, exist_ok=True)
    for old in ("gpu-check.log", "gpu-check.json"):
        (out / old).unlink(missing_ok=True)
    if options.fake:
        print(f"gpu-check: {FAKE_MARK}", flush=True)
    try:
        build, origin = find_build(options, out / "gpu-check.log")
        gpu = device(options, build)
    except (RuntimeError, NotHere) as fault:
        print(f"gpu-check: {fault}", file=sys.stderr)
        return 2
    if not gpu:
        print("gpu-check: torch sees no CUDA device here: nothing was run (--fake tests gpu-check itself)", file=sys.stderr)
        return 2
    began = time.monotonic()
    total = sum(STAGES[stage] for stage in chosen)
    about = {
        "fake": options.fake, "note": FAKE_MARK if options.fake else "", "device": gpu, "commit": builds.commit(), "build": origin,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["scripts/gpu-check", *sys.argv[1:]]),
    }  # fmt: skip
    heading = (f"{gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, torch {gpu['torch']}, {about['date']}, commit {about['commit']},"
               f" build: {origin}, {about['command']}")  # fmt: skip
    print(f"gpu-check: {heading}", flush=True)
    rows: list[Row] = []
    seconds: dict[str, float] = {}

    def write():
        content = about | {"seconds": seconds, "rows": [dataclasses.asdict(row) for row in rows]}
        (out / "gpu-check.json").write_text(json.dumps(content, indent=1))

    for stage in chosen:
        # Time that a stage leaves goes to those after it.
        left = options.seconds - (time.monotonic() - began)
        share = left * STAGES[stage] / total
        total -= STAGES[stage]
        limit = share if options.fake else min(share, 4 * STAGES[stage])
        print(f"{stage}: {limit:.0f} s at most", flush=True)
        ctx = Context(stage, limit, build, out, tiny=options.fake, fake=options.fake, cases=options.case)
        start = time.monotonic()
        try:
            importlib.import_module(f"stages.{stage}").run(ctx)
        except Exception as error:
            ctx.row(stage, "failed", f"gpu-check itself: {type(error).__name__}: {error}")
        seconds[stage] = time.monotonic() - start
        ctx.close()
        rows += ctx.rows
        write()
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in dict.fromkeys(row.verdict for row in rows)}
    print(f"\n{heading}")
    if options.fake:
        print(FAKE_MARK)
    print(table(rows))
    print(f"{', '.join(f'{n} {verdict}' for verdict, n in counts.items())}; {sum(seconds.values()):.0f} s")
    return 1 if counts.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
