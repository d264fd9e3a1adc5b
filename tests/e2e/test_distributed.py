# SPDX-License-Identifier: Apache-2.0
"""Two processes that train together compute the same bits."""

import pytest

import harness
from workloads import registry

# All that these save are DTensors: subclasses, which are PyTorch's own to keep.
SUBCLASSES = ("tensor_parallel", "distributed_tensors")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("distributed", tmp_path_factory.mktemp("distributed"), processes=2)


@pytest.mark.parametrize("name", registry.load("distributed"))
@pytest.mark.quick
def test_same_bits(pair, name):
    pair.check(name, takes=name not in SUBCLASSES)


@pytest.mark.quick
def test_silent(pair):
    pair.check_silence()


def test_default_policy(pair, tmp_path):
    harness.run_workloads("distributed", tmp_path, "default", processes=2).check_nothing_is_wrong(pair.plain)
