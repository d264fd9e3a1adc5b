# SPDX-License-Identifier: Apache-2.0
"""An allocation of Cinch's that fails costs no more than compression: the process lives, the gradients are right, and
nothing stays behind."""

import pytest

import harness

INJECTOR = harness.BUILD / "lib/libe2e_no_memory.so"
LOSSLESS_ON_SIDE = harness.LOSSLESS | {"stream": "side"}
DIVISION = {"version": 1, "policy": "division", "min_bytes": 0, "raw_window": 0, "guard": {"every_steps": 1}}
ADAPTIVE = {"version": 1, "policy": "actnn", "min_bytes": 0, "raw_window": 0}
POLICIES = {"lossless": harness.LOSSLESS, "side": LOSSLESS_ON_SIDE, "division": DIVISION, "adaptive": ADAPTIVE}


def train(folder, policy, mode, stop):
    exact = "1" if policy["policy"] == "lossless" else "0"
    program = harness.HERE / "pytorch/no_memory/train.py"
    arguments = [program, INJECTOR, mode, stop, exact]
    harness.run_python(arguments, folder, policy, {"OMP_NUM_THREADS": "1"}, beside=(INJECTOR,))


@pytest.mark.parametrize("mode", ["cold", "warm"])
@pytest.mark.parametrize("name", POLICIES)
def test_training_goes_on(name, mode, tmp_path):
    train(tmp_path, POLICIES[name], mode, 200)


@pytest.mark.quick
@pytest.mark.parametrize("mode", ["cold", "warm"])
def test_the_first_of_them(mode, tmp_path):
    train(tmp_path, LOSSLESS_ON_SIDE, mode, 60)
