# SPDX-License-Identifier: Apache-2.0
"""Whatever else programs do with autograd gives the same bits under a lossless policy, and leaves nothing."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("autograd", tmp_path_factory.mktemp("autograd"))


@pytest.mark.parametrize("name", registry.load("autograd"))
def test_same_bits(pair, name):
    pair.check(name)


@pytest.mark.parametrize("name", ["physics_informed", "inner_steps_of_gradient_descent"])
def test_a_second_graph_is_held_too(name, tmp_path):
    """What its nodes read is one entry more use, so that next to nothing is held by PyTorch itself."""
    run = harness.run_workloads("autograd", tmp_path, harness.LOSSLESS, only=[name])
    operators = {row["op"] for row in run.run.report["ops"]}
    assert "aten::tanh_backward" in operators
    missed = {row["reason"]: row["bytes"] for row in run.run.report["passed_through"]}
    assert "memory of NumPy, shared memory or another allocator" not in missed, missed
    assert "saved while a backward runs, for it alone" not in missed, missed


def test_silent(pair):
    pair.check_silence()
