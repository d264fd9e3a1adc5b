# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can prove, stage by stage (docs/gpu.md). Run it as scripts/gpu-check."""

import argparse
import collections
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
import traceback

import builds
from context import Context, NotHere, Row, fake_environment

ROOT = builds.ROOT
# Shares of the time that all stages together may take, by what they have to do.
STAGES = {"smoke": 35, "codecs": 60, "exact": 60, "bandwidth": 45, "allocator": 70, "faults": 45, "train": 115, "capacity": 50,
          "overlap": 45, "rescue": 40, "sanitizer": 90}  # fmt: skip
FAKE_MARK = "FAKE CUDA, tiny sizes: a test of gpu-check itself. Its figures say nothing of a GPU or of Cinch."


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check", description="Runs what only a GPU can prove (docs/gpu.md): a table last, and JSON."
    )
    parser.add_argument("stages", metavar="STAGE", nargs="*", help=f"of {', '.join(STAGES)} (default: all)")
    parser.add_argument("--seconds", type=float, help="for building and all stages together (default 540; 2400 on the fake)")
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only this network, in stages that train")
    parser.add_argument("--output", type=pathlib.Path, help="folder for gpu-check.json and gpu-check.log")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder to use as it is")
    parser.add_argument("--rebuild", action="store_true", help="build here even if the bundle's build would do")
    parser.add_argument("--prebuilt", action="store_true", help="use the bundle's build even if it is of other sources")
    parser.add_argument("--fake", action="store_true", help="on the fake CUDA runtime, with tiny sizes: tests gpu-check itself")
    options = parser.parse_intermixed_args()
    options.seconds = options.seconds or (2400 if options.fake else 540)
    unknown = [stage for stage in options.stages if stage not in STAGES]
    if unknown:
        parser.error(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}")
    from cases import CASES

    if any(case not in CASES for case in options.case):
        parser.error(f"no such network; there are {', '.join(CASES)}")
    return options


def find_build(options: argparse.Namespace, log: pathlib.Path, until: float) -> tuple[pathlib.Path, str]:
    """The build under test, and a word on where it comes from. @raises RuntimeError when it can't be made"""
    if options.build:
        return options.build.resolve(), "as named"
    if options.fake and not options.prebuilt:
        return ROOT / "build", "this machine's"
    fault = "asked for" if options.rebuild else builds.prebuilt_fault()
    if fault is None or (options.prebuilt and (builds.BUNDLE / "build").is_dir()):
        return builds.BUNDLE / "build", "the bundle's" + (f" although {fault}" if fault else "")
    print(f"gpu-check: building here: {fault}", flush=True)
    start = time.monotonic()
    build = builds.make(log, until)
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
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ask], env=env, capture_output=True, text=True, timeout=120)
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


class Results:
    """Rows as they come, and the file that has them: it is written anew with every row, so that a run that
    is cut off leaves what it found."""

    def __init__(self, path: pathlib.Path, about: dict):
        self.path, self.about = path, about
        self.rows: list[Row] = []
        self.seconds: dict[str, float] = {}
        self.write()

    def add(self, row: Row):
        self.rows.append(row)
        self.write()

    def write(self):
        content = self.about | {"seconds": self.seconds, "rows": [dataclasses.asdict(row) for row in self.rows]}
        self.path.write_text(json.dumps(content, indent=1))


def prepared(options: argparse.Namespace, results: Results, out: pathlib.Path, until: float) -> pathlib.Path | None:
    """The build under test, once there is a GPU to test it on; None, with a row that says why, when nothing
    can be run."""
    reason = "torch sees no CUDA device here: nothing was run (--fake tests gpu-check itself)"
    try:
        build, results.about["build"] = find_build(options, out / "gpu-check.log", until)
        results.about["device"] = device(options, build)
    except Exception as fault:
        reason = str(fault) if isinstance(fault, (RuntimeError, NotHere)) else f"{type(fault).__name__}: {fault}"
        results.about["device"] = {}
    if results.about["device"]:
        results.write()
        return build
    results.add(Row("start", "build and device", "failed", reason))
    print(f"gpu-check: {reason}", file=sys.stderr)
    return None


def run_stage(stage: str, seconds: float, build: pathlib.Path, out: pathlib.Path, options: argparse.Namespace, results: Results):
    """Whatever goes wrong in it becomes a row."""
    print(f"{stage}: {seconds:.0f} s at most", flush=True)
    start = time.monotonic()
    ctx = Context(stage, seconds, build, out, tiny=options.fake, fake=options.fake, cases=options.case, added=results.add)
    try:
        importlib.import_module(f"stages.{stage}").run(ctx)
    except (Exception, SystemExit) as error:
        ctx.log(traceback.format_exc())
        ctx.row(stage, "failed", f"gpu-check itself: {type(error).__name__}: {error}")
    finally:
        results.seconds[stage] = time.monotonic() - start
        results.write()
        ctx.close()


def main() -> int:
    options = parsed()
    until = time.monotonic() + options.seconds
    out = options.output or pathlib.Path(os.environ.get("OUT") or ROOT / "build-gpu-check/results")
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu-check.log").unlink(missing_ok=True)
    results = Results(out / "gpu-check.json", {
        "fake": options.fake, "note": FAKE_MARK if options.fake else "", "device": {}, "commit": builds.commit(), "build": "",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(["scripts/gpu-check", *sys.argv[1:]]),
    })  # fmt: skip
    if options.fake:
        print(f"gpu-check: {FAKE_MARK}", flush=True)
    build = prepared(options, results, out, until)
    if build is None:
        return 2
    about, gpu = results.about, results.about["device"]
    heading = (f"{gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, torch {gpu['torch']}, {about['date']}, commit {about['commit']},"
               f" build: {about['build']}, {about['command']}")  # fmt: skip
    print(f"gpu-check: {heading}", flush=True)
    chosen = [stage for stage in STAGES if not options.stages or stage in options.stages]
    total = sum(STAGES[stage] for stage in chosen)
    for stage in chosen:
        # Time that a stage leaves goes to those after it.
        share = max(0.0, until - time.monotonic()) * STAGES[stage] / total
        total -= STAGES[stage]
        run_stage(stage, share if options.fake else min(share, 4 * STAGES[stage]), build, out, options, results)
    counts = collections.Counter(row.verdict for row in results.rows)
    print(f"\n{heading}")
    if options.fake:
        print(FAKE_MARK)
    print(table(results.rows))
    print(f"{', '.join(f'{n} {verdict}' for verdict, n in counts.items())}; {sum(results.seconds.values()):.0f} s")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
