# SPDX-License-Identifier: Apache-2.0
"""The side stream against the current one, and a timeline of which kernels ran at the same time."""

from cases import CASES
from context import Context, Failure, Trainer
from stages.train import rounds_of, running, size


def policy(ctx: Context, **more) -> dict:
    return ctx.preset("division") | more


def measure(ctx: Context, case: str, seconds: float):
    what = CASES[case]
    batch = what.tiny_batch if ctx.tiny else what.batch
    team = {
        "plain": Trainer(ctx, case),
        "current": Trainer(ctx, case, policy(ctx, stream="current")),
        "side": Trainer(ctx, case, policy(ctx, stream="side")),
    }
    with running(team):
        found = rounds_of(team, batch, 8 if ctx.tiny else 25, seconds * 0.6)
        lines = {name: team[name].ask("timeline", 60, steps=2) for name in ("current", "side")}
    if found["current"]["losses"] != found["side"]["losses"] and ctx.fake:
        raise Failure("the stream changed the losses")
    for name in ("current", "side"):
        each = found[name]
        ctx.row(f"{case} stream {name}", "measured", f"{each['speed']:.3f} x plain, peak {size(each['allocated'])}",
                speed=each["speed"], peak_allocated=each["allocated"])  # fmt: skip
    faster = max(("current", "side"), key=lambda name: found[name]["speed"])
    gain = found["side"]["speed"] / found["current"]["speed"]
    ctx.row(f"{case} default stream", "measured", f"{faster} is faster; side / current: {gain:.3f} x", gain=gain)
    for name, line in lines.items():
        title = f"{case} timeline, stream {name}"
        if not line["cinch_kernels"]:
            reason = f"the profiler saw {line['kernels']} kernels here, none of Cinch's"
            # On a GPU that would mean that Cinch encoded nothing there.
            ctx.row(title, "not run" if ctx.fake or not line["kernels"] else "failed", reason)
            continue
        share = line["hidden_ms"] / line["cinch_ms"]
        text = (f"a step: {line['cinch_ms']:.2f} ms of Cinch's kernels, {share:.0%} of it while others ran;"
                f" {line['compute_ms']:.2f} ms of the others'")  # fmt: skip
        ctx.row(title, "measured", text, **line)


def run(ctx: Context):
    cases = ctx.chosen(["unet-bf16-cl"] if ctx.tiny else ["resnet50-bf16-cl", "gpt2-bf16"])
    for index, case in enumerate(cases):
        ctx.check(f"{case} streams", measure, ctx, case, ctx.remaining() / (len(cases) - index))
    ctx.row(f"{cases[0]} decode ahead", "not run", "decoding ahead has no switch of its own in policies")
