# SPDX-License-Identifier: Apache-2.0
"""Fork, spawn, fork servers, DataLoader workers, Hogwild: every process computes the same bits."""

import pytest

import harness
from workloads import registry


# Others start Python anew, once for each child.
FORKS = ["forked_child_trains", "forked_between_forward_and_backward", "children_of_fork_train"]
OTHERS = [name for name in registry.load("processes") if name not in FORKS]


@pytest.fixture(
    scope="module",
    params=[pytest.param(FORKS, id="forks", marks=pytest.mark.quick), pytest.param(OTHERS, id="others")],
)
def pair(request, tmp_path_factory):
    return harness.run_pair("processes", tmp_path_factory.mktemp("processes"), only=request.param)


def test_same_bits(pair):
    for name in pair.plain.outcomes:
        pair.check(name)


def test_silent(pair):
    pair.check_silence()
