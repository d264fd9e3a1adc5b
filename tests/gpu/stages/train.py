# SPDX-License-Identifier: Apache-2.0
"""Whole training steps without Cinch and under policies: throughput, memory, ratio, and the loss.

For each network, one process a variant. They take turns on the GPU, round after round, in an order
that reverses with every round; a throughput is compared with plain's of the same round, and the
median over the rounds counts. While one network is measured, the next one's processes start.
"""

import contextlib
import statistics

from cases import CASES
from context import GIB, MIB, Context, Failure, Trainer

STEPS = 50
ROUNDS = 3
WARM = 5
# Least throughput / plain's, and least ratio, by the case's first word.
TARGETS = {"resnet50": (0.95, 10.0), "gpt2": (0.93, None), "vit": (0.93, None)}


VARIANTS = {"plain": None, "off": "off", "lossless": "lossless", "default": "default", "division": "division"}


def start_all(ctx: Context, case: str) -> dict[str, Trainer]:
    return {name: Trainer(ctx, case, policy) for name, policy in VARIANTS.items()}


def stop(team: dict[str, Trainer]):
    for trainer in team.values():
        trainer.kill()


def rounds_of(team: dict[str, Trainer], batch: int, steps: int, seconds: float) -> dict[str, dict]:
    """Everything measured in `seconds` at most: by variant "speed" (against plain), "milliseconds",
    "losses" and memory."""
    found: dict[str, dict] = {}
    warm = min(WARM, max(2, steps // 5))
    for trainer in team.values():
        trainer.send("prepare", batch=batch)
    for trainer in team.values():
        trainer.answer(120)
    for name, trainer in team.items():
        first = trainer.ask("start", 180, steps=warm, idle=len(team) > 1)
        found[name] = {"losses": first["losses"], "milliseconds": [], "speeds": [], "warm": min(first["milliseconds"])}
    once = sum(each["warm"] for each in found.values()) / 1e3
    wanted = max(1, (steps - warm) // ROUNDS - 1)  # a round has one more step, not timed
    each_round = max(2, min(wanted, int(seconds / max(once, 1e-6) / ROUNDS) - 1))
    names = list(team)
    for index in range(ROUNDS):
        for name in names if index % 2 == 0 else reversed(names):
            result = team[name].ask("round", 180, steps=each_round, idle=len(team) > 1)
            of = found[name]
            of["losses"] += result["losses"]
            of["milliseconds"].append(statistics.median(result["milliseconds"]))
            of["wall"] = result["wall_milliseconds"]
            of["allocated"], of["reserved"] = result["allocated"], result["reserved"]
    reference = next(iter(found.values()))["milliseconds"]
    for each in found.values():
        each["speed"] = statistics.median(plain / own for plain, own in zip(reference, each["milliseconds"]))
    return found


def tail(losses: list[float]) -> float:
    """The loss that training has come to: a batch's alone is noise."""
    return statistics.mean(losses[-5:])


def size(count: int) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def check_report(name: str, ended: dict):
    if name == "plain":
        return
    report = ended["report"]
    if report is None:
        raise Failure("left no report")
    if not report["active"] and name != "off":
        raise Failure(f"Cinch was not active: {report['inactive_reason']}")
    if report["stash_bytes_at_exit"] != 0:
        raise Failure(f"{report['stash_bytes_at_exit']} bytes were still in the stash at exit")


@contextlib.contextmanager
def running(team: dict[str, Trainer]):
    """The team is ready within; behind it, reports have been checked, and none of it is left."""
    try:
        for trainer in team.values():
            trainer.ready()
        yield
        for name, trainer in team.items():
            check_report(name, trainer.end())
    finally:
        stop(team)


def measure(ctx: Context, case: str, team: dict[str, Trainer], seconds: float):
    what = CASES[case]
    batch = what.tiny_batch if ctx.tiny else what.batch
    for trainer in team.values():
        trainer.ready()
    found = rounds_of(team, batch, 8 if ctx.tiny else STEPS, seconds * 0.8)
    plain = found["plain"]
    for name, each in found.items():
        ended = team[name].end()
        check_report(name, ended)
        report = ended["report"] or {}
        milliseconds = statistics.median(each["milliseconds"])
        rate = batch * what.items / milliseconds * 1e3
        saved = plain["allocated"] / max(1, each["allocated"])
        ratio = report.get("ratio", 0.0)
        values = {
            "case": case, "variant": name, "batch": batch, "speed": each["speed"], "milliseconds": milliseconds,
            "rate": rate, "peak_allocated": each["allocated"], "peak_reserved": each["reserved"],
            "times_smaller": saved, "ratio": ratio, "losses": each["losses"], "cuda_allocator": ended["allocator"],
        }  # fmt: skip
        text = f"{rate:,.0f} {what.unit}/s, peak {size(each['allocated'])}, reserved {size(each['reserved'])}"
        if name == "plain":
            text += f", loss {tail(each['losses']):.4f} after {len(each['losses'])} steps"
            ctx.row(f"{case} plain", "measured", text, **values)
            continue
        text = (f"{each['speed']:.3f} x plain ({text}; {saved:.2f} x smaller), ratio {ratio:.2f},"
                f" loss {tail(each['losses']):.4f} beside {tail(plain['losses']):.4f}")  # fmt: skip
        if not all(loss == loss and abs(loss) < 1e30 for loss in each["losses"]):
            raise Failure(f"{name}: the loss is no longer a number: {text}")
        if name == "lossless" and ctx.fake and each["losses"] != plain["losses"]:
            raise Failure("lossless: losses differ from plain's")
        speed, least_ratio = TARGETS.get(case.split("-")[0], (None, None))
        if name != "division" or speed is None:
            ctx.row(f"{case} {name}", "measured", text, **values)
            continue
        ctx.compare(f"{case} {name}", each["speed"], speed, text, **values)
        if least_ratio is not None:
            ctx.compare(f"{case} {name}: ratio", ratio, least_ratio, f"{ratio:.2f}")
            smaller = f"{saved:.2f} x ({size(plain['allocated'])} to {size(each['allocated'])})"
            ctx.compare(f"{case} {name}: peak allocated smaller by", saved, 8.7, smaller)


def run(ctx: Context):
    # On the fake, one network of convolutions and one that imports little: this tests gpu-check.
    cases = ctx.chosen(["unet-bf16-cl"] if ctx.tiny else list(CASES))
    teams = {cases[0]: start_all(ctx, cases[0])}
    for index, case in enumerate(cases):
        left = ctx.remaining()
        if case not in teams or left < 5:
            ctx.row(case, "not run", "the stage's time was up")
            continue
        if left > 25 and index + 1 < len(cases):
            teams[cases[index + 1]] = start_all(ctx, cases[index + 1])
        ctx.check(case, measure, ctx, case, teams[case], left / min(4, len(cases) - index))
        stop(teams.pop(case))
    for team in teams.values():
        stop(team)
