# SPDX-License-Identifier: Apache-2.0
"""Runs programs on "cuda" tensors of the fake CUDA runtime (docs/fakecuda.md), plainly or under the preload."""

import sys

import pytest

import harness

sys.path.insert(0, str(harness.HERE.parent / "fakecuda"))
import fakecuda  # noqa: E402

needed = pytest.mark.skipif(not fakecuda.available(), reason="this build has no fake CUDA runtime")

# The installation whose CUDA engine is what nvcc compiled; in the other one the host's codecs stand in for it.
ENGINE = "fakecuda_engine"
engine_needed = pytest.mark.skipif(
    not (harness.BUILD / "lib" / ENGINE).is_dir(), reason="this build has no nvcc, or no fake CUDA runtime"
)

# Without a window: how much fits depends on what else each device can hold in fewer bytes. Without the preset's rules and
# "others": the CPU holds factors of two values in a bit, which a device does not.
DIVISION = {"version": 1, "policy": "division", "preset_rules": False, "guard": {"every_steps": 0}, "raw_window": 0}
# All that is held leaves the device, encoded or raw.
OFFLOAD = {"offload": {"enabled": True, "min_bytes": 0}}
KEPT = harness.LOSSLESS | {"rules": [{"match": {"op": "*"}, "keep": True}]}
CINCHS, PYTORCHS = {}, {"allocator": {"cuda": False}}

# Events that have happened say so late, and the lazy schedule lets none happen before somebody waits.
LATE = {"event_delay": 2, "poison": True}


def start(arguments, folder, device="cuda", policy=None, says="", codecs="fakecuda", extra=None, **fake) -> harness.Run:
    """Runs Python with `arguments`; it must succeed and Cinch, given a policy, must be active and print no line,
    or the one that contains `says`, or anything (...). `codecs`: the installation's folder (docs/fakecuda.md). `extra`
    goes into the environment."""
    folder.mkdir(parents=True, exist_ok=True)
    env = harness.plain_environment(extra)
    if policy is not None:
        env |= harness.preload_environment(folder, policy)
        env["LD_PRELOAD"] = str(harness.BUILD / "lib" / codecs / "libcinch.so")
    if device == "cuda":
        env = fakecuda.environment(env, **fake)
    run = harness.run([sys.executable, "-W", "ignore", *arguments], env)
    assert run.status == 0, f"{run.stdout}\n{run.stderr}"
    if policy is not None:
        assert run.report["active"], run.report["inactive_reason"]
        assert run.report["stash_bytes_at_exit"] == 0
        if says is ...:
            return run
        assert says in run.stderr and len(run.stderr.splitlines()) == (1 if says else 0), run.stderr
    return run
