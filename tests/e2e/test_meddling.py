# SPDX-License-Identifier: Apache-2.0
"""Programs that resize, tag and peek train as without Cinch: the same bits under a lossless policy, and nothing that is
wrong under the default one."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("meddling", tmp_path_factory.mktemp("meddling"), threads=1)


@pytest.mark.parametrize("name", registry.load("meddling"))
def test_same_bits(pair, name):
    pair.check(name, takes=None)


def test_silent(pair):
    pair.check_silence()


def test_under_the_default_policy(pair, tmp_path):
    run = harness.run_workloads("meddling", tmp_path, "division", threads=1)
    run.check_nothing_is_wrong(pair.plain)


def test_reasons_are_reported(pair):
    reasons = {row["reason"] for row in pair.cinch.run.report["passed_through"]}
    assert "changed by the program after it was saved" in reasons
    assert "saved by an autograd.Function: object of another class, or with attributes" in reasons
