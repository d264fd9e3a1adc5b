# SPDX-License-Identifier: Apache-2.0
"""Programs that PyTorch refuses are refused with PyTorch's own words, and leave nothing."""

import re

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("errors", tmp_path_factory.mktemp("errors"))


# The node that PyTorch names is the modified tensor's present grad_fn, which nobody knows once the
# program has dropped that tensor (docs/design.md): Cinch names the one from when it was saved.
NODE_UNKNOWN = "modified_and_gone"


@pytest.mark.parametrize("name", [name for name in registry.load("errors") if name != NODE_UNKNOWN])
def test_same_words(pair, name):
    pair.check(name, takes=None)


def test_same_words_but_for_the_node(pair):
    plain, cinch = (run.outcomes[NODE_UNKNOWN].values for run in (pair.plain, pair.cinch))
    assert plain.keys() == cinch.keys()
    for size, text in plain.items():
        assert "modified by an inplace operation" in text
        assert re.sub(r"output 0 of \w+", "", text) == re.sub(r"output 0 of \w+", "", cinch[size])


def test_cinch_took_part(pair):
    """A refusal is only worth testing where Cinch holds the tensor."""
    assert pair.cinch.outcomes["saved_output_modified_much_later"].taken > 0
    assert pair.cinch.outcomes["errors_and_then_training"].taken > 0


def test_silent(pair):
    pair.check_silence()
