# SPDX-License-Identifier: Apache-2.0
"""What is moved from "cuda" devices, on the fake runtime, to page-locked memory of the host and back."""

import json

import pytest

import fake_device
import harness
from fake_device import CINCHS, DIVISION, KEPT, LATE, OFFLOAD, PYTORCHS, start
from programs import BIG, PIPELINE
from zoo_models import SAME_OPERATORS, SMALL, check_same, over_streams, train

pytestmark = fake_device.needed

@over_streams
def test_offload_changes_nothing(plain_zoo, stream, allocator, schedules, tmp_path):
    policy = harness.LOSSLESS | OFFLOAD | allocator | {"stream": stream}
    outcomes, report = train(tmp_path, SMALL, schedules, policy=policy, **LATE)
    for found in outcomes:
        check_same(found, plain_zoo, SMALL)
    assert report["offloads"] > 100 and report["stored_bytes_at_peak"] < report["offloaded_bytes_at_peak"]
    # The first step of each model knows no order yet.
    assert report["fetches"] / 2 < report["fetches_ahead"] < report["fetches"]


def test_offload_of_what_division_encoded_is_the_cpus(divided_zoo, tmp_path):
    models = SAME_OPERATORS[:2]  # what comes before decides the random numbers
    policy = DIVISION | OFFLOAD | {"stream": "side"}
    outcomes, _ = train(tmp_path, models, ["random:4"], policy=policy, dropout="no-dropout", poison=True)
    check_same(outcomes[0], divided_zoo[0], models)


NO_ROOM = "cinch: offload: the host has no more page-locked memory"


# Refused are the memory for what is moved, and that for what a device tells: sizes that encoding comes to, and whether
# what was computed is what was saved.
@pytest.mark.parametrize(
    "host_bytes, fail",
    [("100KiB", ""), ("1GiB", "cudaHostAlloc:1:2,cudaHostAlloc:2:2,cudaHostAlloc:3:2")],
    ids=["cap", "refused"],
)
def test_what_finds_no_room_on_the_host_stays(plain_zoo, host_bytes, fail, tmp_path):
    policy = harness.LOSSLESS | {"offload": {"enabled": True, "min_bytes": 0, "host_bytes": host_bytes}}
    (found,), report = train(tmp_path, ["unet"], ["eager"], policy=policy, says=NO_ROOM, poison=True, fail=fail)
    assert found["unet"]["losses"] == plain_zoo["unet"]["losses"]
    assert found["unet"]["faults"] == 0
    assert report["peak_pinned_bytes"] <= report["reserved_pinned_bytes"]
    if not fail:
        assert 0 < report["peak_pinned_bytes"] <= 100 << 10


def test_offload_trains_in_a_third_of_the_memory(needed, tmp_path):
    third = needed["peak"] // 3
    run = start(["-c", BIG], tmp_path / "offload", policy=KEPT | OFFLOAD, memory=third, schedule="lazy", poison=True)
    trained = json.loads(run.stdout)
    assert trained["losses"] == needed["losses"] and trained["peak"] <= third
    (device,) = run.report["devices"]
    assert device["index"] == 0 and device["allocator"] == "Cinch"
    assert device["stash_bytes_at_most"] <= device["peak_allocated_bytes"] <= device["peak_reserved_bytes"]
    assert device["peak_reserved_bytes"] == trained["peak"]


@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
def test_offload_from_several_devices_and_across_forks(allocator, tmp_path):
    policy = harness.LOSSLESS | OFFLOAD | allocator | {"stream": "side"}
    run = start(["-c", PIPELINE], tmp_path, policy=policy, devices=2, schedule="random:10", **LATE)
    assert run.stdout.strip() == "True 0"
    assert run.report["offloads"] > 50
    assert [device["index"] for device in run.report["devices"]] == [0, 1]
    assert all(device["stash_bytes_at_most"] > 0 for device in run.report["devices"])


WATCHED = """
import os, subprocess, sys
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
subprocess.run([sys.argv[1], "watch", "--json"], env=plain, check=True)
"""


def test_watch_shows_what_is_on_the_host(tmp_path):
    segments = tmp_path / "segments"
    segments.mkdir()
    program = f"import os\nos.environ['CINCH_TELEMETRY_DIR'] = {str(segments)!r}\n" + BIG + WATCHED
    run = start(["-c", program, harness.CINCH], tmp_path / "run", policy=KEPT | OFFLOAD)
    (shown,) = json.loads(run.stdout.split("\n", 1)[1])["runs"]
    live = shown["live"]
    assert live["offloaded_bytes"] == run.report["offloaded_bytes_at_peak"] > live["stored_bytes"]
    assert live["offloaded_bytes"] <= live["pinned_bytes"] <= live["reserved_pinned_bytes"]
    assert live["reserved_pinned_bytes"] == run.report["reserved_pinned_bytes"]


@pytest.mark.quick
def test_rules_choose_what_leaves(tmp_path):
    rules = [
        {"match": {"op": "aten::native_batch_norm"}, "keep": True, "offload": True},
        {"match": {"op": "*"}, "keep": True, "offload": False},
    ]
    run = start(["-c", BIG], tmp_path / "rules", policy=harness.LOSSLESS | {"rules": rules})
    layers, steps, bytes_each = 30, 3, 16 * 8 * 64 * 64 * 4
    assert run.report["offloads"] <= layers * steps
    assert run.report["offloaded_bytes"] == run.report["offloads"] * bytes_each > 0
