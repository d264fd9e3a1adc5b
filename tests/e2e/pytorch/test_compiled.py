# SPDX-License-Identifier: Apache-2.0
"""Compiled regions, forward and backward, compute the same bits."""

import pytest

import harness
from workloads import registry

# Every run traces and generates code by itself; the C++ compiler works once for equal code.
NO_SHORTCUTS = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}

# Inductor takes from half a minute to minutes for each of the others.
SOON_DONE = ["inductor_mlp", "compiled_autograd_of_an_eager_forward", "script", "trace"]
OTHERS = [name for name in registry.load("compiled") if name not in SOON_DONE]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    return NO_SHORTCUTS | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor"))}


@pytest.fixture(
    scope="module",
    params=[pytest.param(SOON_DONE, id="soon", marks=pytest.mark.quick), pytest.param(OTHERS, id="others")],
)
def pair(request, compiler, tmp_path_factory):
    return harness.run_pair("compiled", tmp_path_factory.mktemp("compiled"), extra=compiler, only=request.param)


def test_same_bits(pair):
    for name in pair.plain.outcomes:
        pair.check(name)


def test_silent(pair):
    pair.check_silence()


def test_default_policy(pair, compiler, tmp_path):
    names = list(pair.plain.outcomes)
    compressed = harness.run_workloads("compiled", tmp_path, "default", extra=compiler, only=names)
    assert list(compressed.outcomes) == names
    compressed.check_nothing_is_wrong(pair.plain)
