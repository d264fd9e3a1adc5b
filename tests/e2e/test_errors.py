# SPDX-License-Identifier: Apache-2.0
"""Programs that PyTorch refuses are refused with PyTorch's own words, and leave nothing."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("errors", tmp_path_factory.mktemp("errors"))


@pytest.mark.parametrize("name", registry.load("errors"))
def test_same_words(pair, name):
    pair.check(name, takes=None)


def test_cinch_took_part(pair):
    """A refusal is only worth testing where Cinch holds the tensor."""
    assert pair.cinch.outcomes["saved_output_modified_much_later"].taken > 0
    assert pair.cinch.outcomes["errors_and_then_training"].taken > 0


def test_silent(pair):
    pair.check_silence()
