# SPDX-License-Identifier: Apache-2.0
"""Every differentiable operator of PyTorch's own database of operators, on its own samples: under a lossless policy the
same bits, under others the same errors."""

import json

import pytest

import harness

POLICIES = {"lossless": harness.LOSSLESS, "default": harness.preset("default")}


def train(folder, policy=None) -> tuple[dict, dict]:
    """What was said of each operator, and what is said of Cinch at the end."""
    run = harness.run_python(["-m", "operator_database"], folder, policy, {"OMP_NUM_THREADS": "1"})
    *lines, end = map(json.loads, run.stdout.splitlines())
    return {line["operator"]: line["said"] for line in lines}, end


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    said, _ = train(tmp_path_factory.mktemp("plain"))
    assert len(said) > 800
    return said


def errors(said: list[str]) -> list[str]:
    return [each for each in said if " " in each]


@pytest.mark.parametrize("name", POLICIES)
def test_every_operator(plain, tmp_path, name):
    said, end = train(tmp_path, POLICIES[name])
    assert said.keys() == plain.keys()
    of = list if name == "lossless" else errors
    assert [each for each in plain if of(said[each]) != of(plain[each])] == []
    assert end["stash_bytes"] == 0 and end["taken"] > 0
