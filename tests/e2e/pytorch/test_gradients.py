# SPDX-License-Identifier: Apache-2.0
"""Whole networks: under a lossless policy every loss, gradient and updated parameter is the same bits."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("models", tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize("name", registry.load("models"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()
