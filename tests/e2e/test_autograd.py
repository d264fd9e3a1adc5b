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


def test_silent(pair):
    pair.check_silence()
