# SPDX-License-Identifier: Apache-2.0
"""Unmodified training on "cuda" tensors, on the fake runtime: Cinch's side of it, whatever the order in which
a device may do its work. What is freed is overwritten (poison), so that what is read too late shows."""

import pytest

import fake_device
import harness
from fake_device import CINCHS, DIVISION, LATE, OFFLOAD, PYTORCHS, start
from zoo_models import MODELS, SAME_OPERATORS, SMALL, check_same, over_streams, train

pytestmark = fake_device.needed

BOUND = 300_000


def test_sources_that_wait_for_the_side_stream_are_bounded(plain_zoo, tmp_path):
    raw = {"rules": [{"match": {"op": "*"}, "codec": {"name": "raw"}}], "stream": "side"}
    policy = harness.LOSSLESS | raw | {"in_flight_bytes": f"{BOUND}B"}
    schedules, report = train(tmp_path, SMALL, ["lazy", "random:6"], policy=policy, **LATE)
    for found in schedules:
        check_same(found, plain_zoo, SMALL)
    (device,) = report["devices"]
    assert 0 < device["in_flight_bytes_at_most"] <= BOUND, "and no source is larger"
    assert device["encodes_held_back"] > 0


@over_streams
def test_lossless_is_plain(plain_zoo, stream, allocator, schedules, tmp_path):
    outcomes, report = train(tmp_path, MODELS, schedules, policy=harness.LOSSLESS | allocator | {"stream": stream}, **LATE)
    for found in outcomes:
        check_same(found, plain_zoo, MODELS)
    assert [device["allocator"] for device in report["devices"]] == ["Cinch" if allocator == CINCHS else "PyTorch"]


@over_streams
def test_division_is_the_cpus(divided_zoo, stream, allocator, schedules, tmp_path):
    policy = DIVISION | allocator | {"stream": stream}
    outcomes, _ = train(tmp_path, SAME_OPERATORS, schedules, policy=policy, dropout="no-dropout", poison=True)
    for found, expected in zip(outcomes, divided_zoo):
        check_same(found, expected, SAME_OPERATORS)


@pytest.mark.parametrize("stream", ["current", "side"])
def test_dithered_groups_are_the_cpus(stream, tmp_path):
    """Nothing is derived: on a device that is proved some entries later than on the CPU."""
    policy = DIVISION | {"policy": "default", "derive": {"enabled": False}, "stream": stream}
    models = SAME_OPERATORS[:2]
    (expected,), _ = train(tmp_path / "cpu", models, [""], "cpu", policy, dropout="no-dropout")
    (found,), report = train(tmp_path / "cuda", models, ["random:5"], policy=policy, dropout="no-dropout", poison=True)
    check_same(found, expected, models)
    assert any("dithered" in row["codec"] for row in report["ops"])


@pytest.mark.parametrize(
    "offload",
    [pytest.param({}, id="on device"), pytest.param(OFFLOAD, id="offload", marks=pytest.mark.quick)],
)
def test_nothing_leaks(offload, tmp_path):
    policy = DIVISION | {"stream": "side"} | offload
    (found,), _ = train(tmp_path, ["unet"], ["random:3"], policy=policy, steps=50, poison=True)
    assert found["unet"]["growth"] == 0


# Of two devices the program uses the second only, by name or as the current one.
SECOND_DEVICE = """
import sys
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
if sys.argv[1] == "current":
    torch.cuda.set_device(1)
layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.GELU(), nn.Flatten()]
model = nn.Sequential(*layers, nn.Linear(392, 10)).to("cuda:1")
for step in range(4):
    x, y = torch.randn(16, 3, 16, 16, device="cuda:1"), torch.arange(16, device="cuda:1") % 10
    nn.functional.cross_entropy(model(x), y).backward()
    torch.cuda.set_per_process_memory_fraction(0.9, 0)
    for device in range(2):
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.reset_accumulated_memory_stats(device)
    torch.cuda.empty_cache()
del x, y
print(control.has_context(0), control.has_context(1))
"""


@pytest.mark.parametrize("use", ["current", "by name"])
@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
@pytest.mark.parametrize(
    "policy",
    [
        None,
        pytest.param(DIVISION, marks=pytest.mark.quick),
        harness.LOSSLESS | {"stream": "side", "in_flight_bytes": "30000B"},
        harness.LOSSLESS | OFFLOAD | {"stream": "side"},
        {"version": 1, "policy": "lossless", "min_bytes": 0},
    ],
    ids=["plain", "division", "side", "offload", "window"],
)
def test_other_devices_get_no_context(use, allocator, policy, tmp_path):
    """A context takes hundreds of megabytes of a GPU that the program leaves to others."""
    options = {"devices": 2, "schedule": "lazy", **LATE}
    run = start(["-c", SECOND_DEVICE, use], tmp_path, policy=policy and policy | allocator, **options)
    assert run.stdout.split() == ["0", "1"]
