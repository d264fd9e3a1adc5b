# SPDX-License-Identifier: Apache-2.0
"""Fork, spawn, fork servers, DataLoader workers, Hogwild: every process computes the same bits."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("processes", tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("name", registry.load("processes"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()
