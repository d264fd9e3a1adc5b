# SPDX-License-Identifier: Apache-2.0
"""What fits: the largest batch beside plain's in the same memory, and encoded entries in host memory."""

from cases import CASES
from context import GIB, MIB, Context, Failure, NotHere, Trainer
from stages.train import rounds_of, running, size

LARGEST_IN = 12 * GIB


def largest_batch(ctx: Context, case: str):
    what = CASES[case]
    limit = 48 * MIB if ctx.tiny else LARGEST_IN
    start = 4 if ctx.tiny else 32 if what.unit == "img" else 4
    found = {}
    for name in ("plain", "division"):
        trainer = Trainer(ctx, case, None if name == "plain" else name)
        try:
            trainer.ready()
            found[name] = trainer.ask("largest", batch=start, bytes=limit, seconds=min(30.0, ctx.remaining() / 2))
            trainer.end()
        finally:
            trainer.kill()
    plain, own = found["plain"]["largest"], found["division"]["largest"]
    if not plain or not own:
        raise Failure(f"no batch fits into {size(limit)}: {found}")
    open_end = " or more (the time was up)" if found["division"]["fails"] is None else ""
    figure = f"{own}{open_end} beside {plain} in {size(limit)}: {own / plain:.2f} x"
    ctx.compare(f"{case} division: largest batch", own / plain, 8.0, figure, **found)


def offload(ctx: Context, case: str):
    """Level 4: encoded entries in host memory, where this Cinch can do that."""
    if not ctx.policy_has("offload"):
        raise NotHere("this Cinch's policies have no \"offload\"")
    batch = CASES[case].tiny_batch if ctx.tiny else CASES[case].batch
    policy = ctx.preset("division") | {"offload": {"enabled": True}}
    team = {"plain": Trainer(ctx, case), "offload": Trainer(ctx, case, policy)}
    with running(team):
        found = rounds_of(team, batch, 8 if ctx.tiny else 20, ctx.remaining() * 0.8)
    own = found["offload"]
    ctx.compare(f"{case} offload", own["speed"], 0.7,
                f"{own['speed']:.3f} x plain, peak {size(own['allocated'])} beside {size(found['plain']['allocated'])}")  # fmt: skip


def run(ctx: Context):
    case = ctx.chosen(["unet-bf16-cl"] if ctx.tiny else ["resnet50-bf16-cl"])[0]
    ctx.check(f"{case} division: largest batch", largest_batch, ctx, case)
    ctx.check(f"{case} offload", offload, ctx, case)
