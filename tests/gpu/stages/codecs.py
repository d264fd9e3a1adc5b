# SPDX-License-Identifier: Apache-2.0
"""Every CUDA codec writes the reference's bytes."""

import concurrent.futures
import os
import re

from context import Context, Failure

SHARDS = 8
SMALL = "*Empty*:*SingleElement*:*Poisons*:*SignsOfNan*:*BoundsByChannel*"
# Each codec's encoding beside the reference's bytes, and back.
ROUND_TRIPS = "*WritesTheReferencesBytes:*WriteTheReferencesBytes"
EQUAL = "codecs equal the reference byte for byte"


def verdict_of(outputs: list[str]) -> tuple[int, int, list[str]]:
    """(passed, skipped, names of those that failed), of GoogleTest's output."""
    passed = skipped = 0
    failed = []
    for text in outputs:
        passed += len(re.findall(r"^\[       OK \]", text, re.MULTILINE))
        skipped += len(re.findall(r"^\[  SKIPPED \] \S+ \(", text, re.MULTILINE))
        failed += re.findall(r"^\[  FAILED  \] (\S+) \(", text, re.MULTILINE)
    return passed, skipped, failed


def tests(ctx: Context, title: str, cases: str):
    """Those that GoogleTest's filter `cases` selects, on several processes at a time."""
    program = ctx.binary("codec_cuda_test")
    shards = 2 if ctx.tiny else min(SHARDS, os.cpu_count() or 1)

    def shard(index: int):
        env = ctx.for_binaries() | {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(index)}
        if ctx.fake:  # which finds kernels that run on the host in programs without torch, too
            env["LD_PRELOAD"] += f" {ctx.build / 'lib/libfakecuda_kernels.so'}"
        return ctx.run([program, f"--gtest_filter={cases}"], env, ctx.remaining() * 0.6)

    with concurrent.futures.ThreadPoolExecutor(shards) as pool:
        results = list(pool.map(shard, range(shards)))
    passed, skipped, failed = verdict_of([result.stdout for result in results])
    bad = [result for result in results if result.status != 0]
    if bad and not failed:
        bad[0].last_json()  # raises what it ended with
    figure = f"{passed} passed, {len(failed)} failed, {skipped} skipped"
    if failed or skipped or not passed:
        raise Failure(figure + (": " + ", ".join(failed[:6]) if failed else ""))
    ctx.row(title, "passed", figure, passed=passed)


def run(ctx: Context):
    ctx.check(EQUAL, tests, ctx, EQUAL, SMALL if ctx.tiny else "*")
