# SPDX-License-Identifier: Apache-2.0
"""Under `lossless` losses and weights are plain's, bit for bit, whatever is derived instead of stored."""

import concurrent.futures

from cases import CASES
from context import Context, Failure, NotHere, Trainer
from stages.train import check_report

# A network of each kind; of ResNet-50 both layouts, whose batch norms are different kernels.
NETWORKS = ["resnet50-bf16-cl", "resnet50-tf32", "gpt2-bf16", "llama-bf16", "vit-bf16", "unet-bf16-cl", "swin-bf16"]
STEPS = 8


def run_of(ctx: Context, case: str, policy: str | None, batch: int, steps: int) -> dict:
    trainer = Trainer(ctx, case, policy, flags=["--deterministic"])
    try:
        trainer.ready()
        trainer.ask("prepare", batch=batch)
        found = trainer.ask("start", 180, steps=steps, idle=False) | trainer.ask("fingerprint", 60)
        ended = trainer.end()
        check_report(policy or "plain", ended)
        return found | {"report": ended["report"]}
    finally:
        trainer.kill()


def compare(ctx: Context, case: str):
    """Plain twice, since a network may differ from itself, and under `lossless`."""
    what = CASES[case]
    batch, steps = (what.tiny_batch, 4) if ctx.tiny else (max(2, what.batch // 8), STEPS)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(run_of, ctx, case, policy, batch, steps) for policy in (None, None, "lossless")]
        plain, again, own = (run.result() for run in runs)
    if (plain["losses"], plain["weights"]) != (again["losses"], again["weights"]):
        raise NotHere("two plain runs differ from each other")
    derived = sum(op["count"] for op in own["report"]["ops"] if op["codec"].startswith("derived"))
    figure = f"ratio {own['report']['ratio']:.2f}, {derived} derived, loss {own['losses'][-1]:.6f} after {steps} steps"
    if plain["losses"] != own["losses"]:
        first = next(i for i, pair in enumerate(zip(plain["losses"], own["losses"])) if pair[0] != pair[1])
        raise Failure(f"{figure}: losses differ from step {first} on: {plain['losses'][first]!r}, {own['losses'][first]!r}")
    if plain["weights"] != own["weights"]:
        raise Failure(f"{figure}: losses are plain's, but the weights after the last step are not")
    ctx.row(f"{case} lossless", "passed", f"losses and weights are plain's; {figure}", report=own["report"])


def run(ctx: Context):
    cases = ctx.chosen(["unet-bf16-cl"] if ctx.tiny else NETWORKS)
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
        for done in [pool.submit(ctx.check, f"{case} lossless", compare, ctx, case) for case in cases]:
            done.result()
