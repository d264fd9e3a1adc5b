# SPDX-License-Identifier: Apache-2.0
"""Two processes that train together compute the same bits."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("distributed", tmp_path_factory.mktemp("distributed"), processes=2)


@pytest.mark.parametrize("name", registry.load("distributed"))
@pytest.mark.quick
def test_same_bits(pair, name):
    pair.check(name)


@pytest.mark.quick
def test_silent(pair):
    pair.check_silence()


def test_default_policy(pair, tmp_path):
    run = harness.run_workloads("distributed", tmp_path, harness.preset("default"), processes=2)
    run.check_nothing_is_wrong(pair.plain)
    # What both processes compute alike is approximated alike: their copies of a parameter stay the same.
    values = run.outcomes["sequence_parallel"].values
    exact = pair.plain.outcomes["sequence_parallel"].values
    assert not harness.same_bits(values["rank0.final.0.weight"], exact["rank0.final.0.weight"])
    for name, value in values.items():
        if name.startswith("rank0."):
            assert harness.same_bits(value, values[name.replace("rank0.", "rank1.")]), name
