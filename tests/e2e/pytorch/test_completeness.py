# SPDX-License-Identifier: Apache-2.0
"""What real programs put around training gives the same bits under a lossless policy, and runs under
the default one."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("completeness", tmp_path_factory.mktemp("completeness"))


@pytest.mark.parametrize("name", registry.load("completeness"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()


def test_default_policy(pair, tmp_path):
    harness.run_workloads("completeness", tmp_path, "default").check_nothing_is_wrong(pair.plain)
