# SPDX-License-Identifier: Apache-2.0
"""What plain PyTorch can't fit trains with Cinch, and memory is not lost to fragmentation."""

from cases import CASES
from context import GIB, MIB, Context, Failure, NotHere, Trainer
from stages.train import size


def attempt(ctx: Context, case: str, policy, batch: int, limit: int, steps: int) -> dict:
    """A training in `limit` bytes: its losses, or that it ran out; with the report."""
    trainer = Trainer(ctx, case, policy)
    try:
        trainer.ready()
        result = trainer.ask("some_steps_in", min(90.0, ctx.remaining()), batch=batch, bytes=limit, steps=steps)
        return result | {"report": trainer.end()["report"]}
    finally:
        trainer.kill()


def too_large_a_batch(ctx: Context, case: str):
    """4 times, and 1.2 times, the smallest batch found that plain cannot train in the same memory."""
    tiny = ctx.tiny
    base = CASES[case].tiny_batch * 2 if tiny else 32
    trainer = Trainer(ctx, case)
    try:
        trainer.ready()
        limit = 48 * MIB if tiny else 6 * GIB
        plain = trainer.ask("largest", batch=base, bytes=limit, seconds=min(20.0, ctx.remaining() / 3))
        trainer.end()
    finally:
        trainer.kill()
    if not plain["largest"] or not plain["fails"]:
        raise Failure(f"no batch from {base} on was found that just fits into {size(limit)}: {plain}")
    steps = 2 if tiny else 10

    def judge(what: str, policy, times: float):
        batch = int(plain["fails"] * times)
        result = attempt(ctx, case, policy, batch, limit, steps)
        text = f"batch {batch} in {size(limit)}, where plain fits {plain['largest']}, not {plain['fails']}"
        if "out_of_memory" in result:
            ctx.row(what, "missed", f"{text}: ran out of memory", batch=batch, **plain)
            return
        if not all(loss == loss for loss in result["losses"]):
            raise Failure(f"{text}: the loss is not a number")
        rescues = (result["report"] or {}).get("rescues")
        counted = "" if rescues is None else f", {rescues} rescues"
        ctx.row(what, "passed", f"{text}: {steps} steps, peak {size(result['allocated'])}{counted}", batch=batch, **plain)

    # Tiny networks' weights count for as much as their activations.
    times = 1.15 if tiny else 4.0
    ctx.check(f"{case} division at {times:g} x", judge, f"{case} division at {times:g} x", "division", times)

    ctx.row(f"{case} budget at 1.2 x", "not run", "this stage has no program for policy budget")

    def rescued():
        if not ctx.has_cuda_allocator():
            raise NotHere("rescue needs Cinch's CUDA allocator, which this build has not")
        # Nothing is encoded before memory runs out.
        policy = {"version": 1, "policy": "off", "rescue": {"enabled": True}}
        judge(f"{case} off + OOM rescue at 1.2 x", policy, 1.2)

    ctx.check(f"{case} off + OOM rescue at 1.2 x", rescued)


def fragmentation(ctx: Context):
    """Sequences of all lengths: what is reserved beyond what is allocated, at the peak."""
    steps = "6" if ctx.tiny else "60"
    options = ["--steps", steps] + ["--tiny"] * ctx.tiny
    found = {}
    for name, policy in {"plain": None, "cinch": {"version": 1, "policy": "lossless", "min_bytes": 2**52}}.items():
        if name == "cinch" and not ctx.has_cuda_allocator():
            ctx.row("fragmentation with Cinch's allocator", "not run", "this build has no CUDA allocator")
            continue
        result = ctx.python("programs/fragmentation.py", *options, policy=policy, limit=60).last_json()
        if name == "cinch" and not result["cuda_allocator"]:
            raise Failure("Cinch's CUDA allocator was not in place")
        found[name] = result
        gap = 1 - result["allocated"] / result["reserved"]
        text = f"{gap:.1%} of {size(result['reserved'])} reserved was not allocated at the peak"
        if name == "plain":
            ctx.row("fragmentation, PyTorch's allocator", "measured", text, **result)
        else:
            ctx.compare("fragmentation with Cinch's allocator", gap, 0.05, text, at_most=True, **result)


def run(ctx: Context):
    case = ctx.chosen(["unet-bf16-cl"] if ctx.tiny else ["resnet50-bf16-cl"])[0]
    ctx.check("fragmentation", fragmentation, ctx)
    ctx.check(f"{case} beyond plain's memory", too_large_a_batch, ctx, case)
