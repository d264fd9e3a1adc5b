# SPDX-License-Identifier: Apache-2.0
"""Every CUDA codec writes the reference's bytes; compute-sanitizer finds nothing in a small run."""

import concurrent.futures
import os
import re
import shutil

from context import Context, Failure, NotHere

SHARDS = 8
SMALL = "*Empty*:*SingleElement*:*Poisons*:*SignsOfNan*:*BoundsByChannel*"


def verdict_of(outputs: list[str]) -> tuple[int, int, list[str]]:
    """(passed, skipped, names of those that failed), of GoogleTest's output."""
    passed = skipped = 0
    failed = []
    for text in outputs:
        passed += len(re.findall(r"^\[       OK \]", text, re.MULTILINE))
        skipped += len(re.findall(r"^\[  SKIPPED \] \S+ \(", text, re.MULTILINE))
        failed += re.findall(r"^\[  FAILED  \] (\S+) \(", text, re.MULTILINE)
    return passed, skipped, failed


def tests(ctx: Context):
    # The fake runs no kernels: the stand-in of tests/cuda_on_host does, a thread at a time.
    program = ctx.binary("codec_cuda_on_host_test" if ctx.fake else "codec_cuda_test")
    options = [f"--gtest_filter={SMALL}"] if ctx.tiny else []
    shards = 2 if ctx.tiny else min(SHARDS, os.cpu_count() or 1)

    def shard(index: int):
        env = ctx.for_binaries() | {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)}
        if ctx.fake:
            env.pop("LD_PRELOAD")
        return ctx.run([program, *options], env, ctx.remaining() * 0.6)

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        results = list(pool.map(shard, range(shards)))
    passed, skipped, failed = verdict_of([result.stdout for result in results])
    bad = [result for result in results if result.status != 0]
    if bad and not failed:
        bad[0].last_json()  # raises what it ended with
    figure = f"{passed} passed, {len(failed)} failed, {skipped} skipped"
    if failed or skipped or not passed:
        raise Failure(figure + (": " + ", ".join(failed[:6]) if failed else ""))
    ctx.row("codecs equal the reference byte for byte", "passed", figure, passed=passed)


def sanitize(ctx: Context, tool: str):
    if ctx.fake:
        raise NotHere("compute-sanitizer needs a GPU")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        raise NotHere("no compute-sanitizer on this machine")
    done = ctx.run(
        [sanitizer, "--tool", tool, "--error-exitcode", "99", ctx.binary("codec_cuda_test"), f"--gtest_filter={SMALL}"],
        limit=ctx.remaining() * (0.55 if tool == "memcheck" else 1.0),
    )
    passed, skipped, failed = verdict_of([done.stdout])
    if done.status is None:
        raise Failure(f"its time was up after {passed} tests")
    if "Device not supported" in done.stdout + done.stderr:
        raise NotHere("compute-sanitizer refuses this device")
    summary = re.findall(r"^=+ +((?:ERROR|RACECHECK) SUMMARY: .*)$", done.stdout, re.MULTILINE)
    figure = f"{passed} tests; {summary[-1] if summary else 'no summary'}"
    if done.status != 0 or failed or skipped or not passed or not summary:
        raise Failure(f"{figure}; exit status {done.status}")
    ctx.row(f"compute-sanitizer {tool}", "passed", figure)


def run(ctx: Context):
    ctx.check("codecs equal the reference byte for byte", tests, ctx)
    for tool in ("memcheck", "racecheck"):
        ctx.check(f"compute-sanitizer {tool}", sanitize, ctx, tool)
