# SPDX-License-Identifier: Apache-2.0
"""Compiled regions, forward and backward, compute the same bits."""

import pytest

import harness
from workloads import registry

# Every run traces and generates code by itself; the C++ compiler works once for equal code.
NO_SHORTCUTS = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    return NO_SHORTCUTS | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.mktemp("inductor"))}


@pytest.fixture(scope="module")
def pair(compiler, tmp_path_factory):
    return harness.run_pair("compiled", tmp_path_factory.mktemp("compiled"), extra=compiler)


@pytest.mark.parametrize("name", registry.load("compiled"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()


def test_default_policy(pair, compiler, tmp_path):
    one_of_each = [
        "inductor_transformer_with_dropout", "inductor_convolutional_bf16_autocast", "inductor_dynamic_shapes",
        "compiled_autograd_of_a_compiled_forward", "script",
    ]  # fmt: skip
    compressed = harness.run_workloads("compiled", tmp_path, "division", extra=compiler, only=one_of_each)
    assert list(compressed.outcomes) == one_of_each
    compressed.check_nothing_is_wrong(pair.plain)
