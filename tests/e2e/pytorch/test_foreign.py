# SPDX-License-Identifier: Apache-2.0
"""What is not Cinch's to take is not taken, and the program computes the same bits."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("foreign", tmp_path_factory.mktemp("foreign"))


@pytest.mark.parametrize("name", registry.load("foreign"))
def test_same_bits(pair, name):
    pair.check(name, takes=False)


def test_silent(pair):
    pair.check_silence()
