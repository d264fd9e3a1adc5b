# SPDX-License-Identifier: Apache-2.0
"""Single operators and views: under a lossless policy every gradient is the same bits."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("operators", tmp_path_factory.mktemp("operators"))


@pytest.mark.parametrize("name", registry.load("operators"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()
