# SPDX-License-Identifier: Apache-2.0
"""Models from torchvision, timm and transformers, twenty steps: under a lossless policy every loss and
parameter is the same bits, in one process and in two."""

import pytest

import harness
from workloads import registry, zoo


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("zoo", tmp_path_factory.mktemp("zoo"), threads=1)


@pytest.mark.parametrize("name", registry.load("zoo"))
def test_same_bits(pair, name):
    pair.check(name)


def test_lstm_in_bf16_is_among_them(pair):
    if not zoo.RUNS_BF16_LSTM:
        pytest.skip("oneDNN has no LSTM in bfloat16 for this processor: PyTorch can't train it")
    pair.check("lstm_bf16")


def test_silent(pair):
    pair.check_silence()


@pytest.fixture(scope="module")
def distributed_pair(tmp_path_factory):
    return harness.run_pair("zoo_distributed", tmp_path_factory.mktemp("zoo_distributed"), processes=2)


@pytest.mark.parametrize("name", registry.load("zoo_distributed"))
def test_same_bits_in_two_processes(distributed_pair, name):
    distributed_pair.check(name)


def test_silent_in_two_processes(distributed_pair):
    distributed_pair.check_silence()
