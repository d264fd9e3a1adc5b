# SPDX-License-Identifier: Apache-2.0
"""In half a minute, whether anything is wrong that would spoil all else: everything loads, each codec goes
there and back, and each policy trains."""

import concurrent.futures

import builds
from context import ROOT, Context, Failure
from stages import codecs


def loads(ctx: Context):
    fault = builds.load_fault(ctx.build)
    if fault is not None:
        raise Failure(fault)
    names = [library.name for library in builds.libraries(ctx.build)]
    ctx.row("programs start, libraries load", "passed", ", ".join(names))


def trains(ctx: Context, policy: str):
    """A few steps of a small network of convolutions."""
    title = f"some steps under {policy}"
    result = ctx.python("programs/faults.py", "train", policy=policy, limit=90).last_json()
    losses = result["losses"]
    if not all(loss == loss and abs(loss) < 1e3 for loss in losses):
        raise Failure(f"losses: {losses}")
    if result["stash_bytes"]:
        raise Failure(f"{result['stash_bytes']} bytes stayed in the stash")
    if not result["taken"] and policy != "off":
        raise Failure("Cinch took no tensor")
    ctx.row(title, "passed", f"{result['taken']} storages taken, loss {losses[0]:.3f} to {losses[-1]:.3f}", losses=losses)


def run(ctx: Context):
    ctx.check("programs start, libraries load", loads, ctx)
    title = "one round trip of each codec"
    ctx.check(title, codecs.tests, ctx, title, codecs.SMALL if ctx.tiny else codecs.ROUND_TRIPS)
    policies = sorted(path.stem for path in (ROOT / "configs").glob("*.json") if path.stem != "policy.schema")
    with concurrent.futures.ThreadPoolExecutor(2 if ctx.tiny else 8) as pool:
        for done in [pool.submit(ctx.check, f"some steps under {policy}", trains, ctx, policy) for policy in policies]:
            done.result()
