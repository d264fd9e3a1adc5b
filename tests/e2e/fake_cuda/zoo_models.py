# SPDX-License-Identifier: Apache-2.0
"""Trains the models of workloads.zoo by cuda_zoo.py, and compares what came of it."""

import json

import pytest

import harness
from fake_device import CINCHS, PYTORCHS, start

MODELS = ["unet", "lstm", "resnet18", "vit_tiny", "bert_tiny", "gpt2_tiny"]
# With the same operators on both devices, and so the same random numbers of a policy's.
SAME_OPERATORS = ["unet", "lstm_by_hand", "resnet18", "vit_tiny", "bert_tiny", "gpt2_tiny"]
SMALL = MODELS[:2]  # which need no library that takes seconds to import
STEPS = 3


def train(folder, models, schedules, device="cuda", policy=None, steps=STEPS, dropout="with-dropout", **options):
    """What cuda_zoo.py found under each schedule, and the report."""
    program = [harness.HERE / "fake_cuda/cuda_zoo.py", device, steps, dropout, ",".join(schedules), *models]
    run = start(program, folder, device, policy, **options)
    return json.loads(run.stdout), run.report


def check_same(found, expected, models):
    """Each is an outcome of the models' training under one schedule."""
    for model in models:
        assert found[model]["losses"] == expected[model]["losses"], model
        assert found[model]["parameters"] == expected[model]["parameters"], model
        assert found[model]["faults"] == 0, model
        # On the CPU nobody counts.
        assert found[model]["host_syncs"] == expected[model].get("host_syncs", 0), "Cinch waited for the device"


STREAMS = [
    pytest.param("current", CINCHS, ["random:1"], id="current"),
    pytest.param("side", CINCHS, ["lazy", "random:2"], id="side"),
    pytest.param("side", PYTORCHS, ["lazy", "random:3"], id="side, PyTorch's allocator"),
]
over_streams = pytest.mark.parametrize("stream, allocator, schedules", STREAMS)
