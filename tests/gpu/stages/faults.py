# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in real programs: nothing hangs, leaks or changes because Cinch is there."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading

from context import HERE, MIB, Context, Failure

PROGRAM = "programs/faults.py"
POLICY = "division"


def shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "cinch" in name.lower()}


def train(ctx: Context, policy=POLICY) -> dict:
    return ctx.python(PROGRAM, "train", policy=policy, limit=90).last_json()


def close(left: list[float], right: list[float], exact: bool) -> bool:
    if exact:
        return left == right
    return len(left) == len(right) and all(abs(a - b) <= 0.02 * max(1.0, abs(a)) for a, b in zip(left, right))


def killed(ctx: Context):
    """SIGKILL in the middle of a step: the device's memory comes back, and the next program is well."""
    before = train(ctx)
    left_before = shared_memory()
    env = ctx.environment(POLICY)
    flags = ["--fake"] if ctx.fake else []
    victim = ctx.start([sys.executable, "-W", "ignore", HERE / PROGRAM, "endless", *flags], env,
                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    timer = threading.Timer(min(60.0, ctx.remaining()), victim.kill)
    timer.start()
    steps = 0
    for _ in victim.stdout:
        steps += 1
        if steps == 5:
            os.killpg(victim.pid, signal.SIGKILL)
            break
    status = victim.wait()
    timer.cancel()
    if steps < 5 or status != -signal.SIGKILL:
        raise Failure(f"the victim ended by itself with status {status} after {steps} steps")
    after = train(ctx)
    # Telemetry of a dead process is told apart by its pid; it must not grow without bound.
    left = shared_memory() - left_before
    if after["free"] < before["free"] - (256 << 20):
        raise Failure(f"{before['free'] - after['free']} bytes of device memory did not come back")
    if not close(before["losses"], after["losses"], ctx.fake):
        raise Failure(f"the next program's losses differ: {before['losses']} and {after['losses']}")
    figure = f"memory back, next program's losses the same, {len(left)} files left in shared memory"
    ctx.row("kill -9 in the middle of a step", "passed", figure)


def program(ctx: Context, what: str, title: str, policy=POLICY, **surroundings):
    result = ctx.python(PROGRAM, what, policy=policy, limit=90, **surroundings).last_json()
    if not result["taken"] and what != "graphs":
        raise Failure("Cinch took no tensor: nothing was checked")
    if result["stash_bytes"]:
        raise Failure(f"{result['stash_bytes']} bytes stayed in the stash")
    verdict = "passed" if result["wrong"] is None else "failed"
    ctx.row(title, verdict, result["wrong"] or result["figure"])


def physical(ctx: Context, loading: str):
    """The device's whole memory is taken. On the fake, which has no modules to load, loading changes nothing."""
    title = f"no device memory left, {loading.lower()} loading"
    program(ctx, "physical_out_of_memory", title, extra={"CUDA_MODULE_LOADING": loading}, fake_memory=256 * MIB)


def two_at_once(ctx: Context):
    alone = train(ctx)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: train(ctx), range(2)))
    for each in both:
        if not close(alone["losses"], each["losses"], ctx.fake):
            raise Failure(f"losses differ from those of a process alone: {alone['losses']} and {each['losses']}")
    ctx.row("two processes on one GPU", "passed", "both end, losses as of one alone")


PROGRAMS = {
    "backward_exception": "an exception in backward",
    "dataloader": "DataLoader forks after CUDA initialisation",
    "graphs": "CUDA graph capture",
    "out_of_memory": "out of memory in the middle of a step",
    "device_assert": "an error on the device",
}


def run(ctx: Context):
    # Alone: they look at the device's free memory, or take it.
    ctx.check("kill -9 in the middle of a step", killed, ctx)
    for loading in ("LAZY", "EAGER"):
        ctx.check(f"no device memory left, {loading.lower()} loading", physical, ctx, loading)
    jobs = [("two processes on one GPU", two_at_once, ctx)]
    jobs += [(title, program, ctx, what, title, "lossless" if what == "graphs" else POLICY) for what, title in PROGRAMS.items()]
    with concurrent.futures.ThreadPoolExecutor(2 if ctx.tiny else 8) as pool:
        for done in [pool.submit(ctx.check, *job) for job in jobs]:
            done.result()
