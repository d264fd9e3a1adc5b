# SPDX-License-Identifier: Apache-2.0
"""compute-sanitizer finds nothing in the codecs' kernels: all four tools on small cases, and those that see
barriers and reads of memory that nobody wrote on cases of many blocks, too."""

import re
import shutil

from context import Context, Failure, NotHere
from stages.codecs import SMALL, verdict_of

# Planes, chunks and samples over many blocks of threads, each a second or less on the host.
MIDDLE = "*ChannelsOfManyChunks*:*OverManyBlocks*:*ThanASampleHas*:*ThanALaunchCarries*:*LongerThanSharedMemory*"
RUNS = [("memcheck", SMALL, "small"), ("racecheck", SMALL, "small"), ("synccheck", SMALL, "small"), ("initcheck", SMALL, "small"),
        ("synccheck", MIDDLE, "middle"), ("initcheck", MIDDLE, "middle")]  # fmt: skip


def sanitize(ctx: Context, tool: str, cases: str, title: str, seconds: float):
    if ctx.fake:
        raise NotHere("compute-sanitizer needs a GPU")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        raise NotHere("no compute-sanitizer on this machine")
    program = ctx.binary("codec_cuda_test")
    done = ctx.run([sanitizer, "--tool", tool, "--error-exitcode", "99", program, f"--gtest_filter={cases}"], limit=seconds)
    passed, skipped, failed = verdict_of([done.stdout])
    if done.status is None:
        raise Failure(f"its time was up after {passed} tests")
    if "Device not supported" in done.stdout + done.stderr:
        raise NotHere("compute-sanitizer refuses this device")
    summary = re.findall(r"^=+ +((?:ERROR|RACECHECK) SUMMARY: .*)$", done.stdout, re.MULTILINE)
    figure = f"{passed} tests; {summary[-1] if summary else 'no summary'}"
    if done.status != 0 or failed or skipped or not passed or not summary:
        raise Failure(f"{figure}; exit status {done.status}")
    ctx.row(title, "passed", figure)


def run(ctx: Context):
    for index, (tool, cases, size) in enumerate(RUNS):
        title = f"compute-sanitizer {tool}, {size} cases"
        # What the middle cases take nobody has seen yet: of what is left, two shares for each.
        left = sum(1 if size == "small" else 2 for *_, size in RUNS[index:])
        ctx.check(title, sanitize, ctx, tool, cases, title, ctx.remaining() * (1 if size == "small" else 2) / left)
