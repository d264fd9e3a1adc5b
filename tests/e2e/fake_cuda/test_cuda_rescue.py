# SPDX-License-Identifier: Apache-2.0
"""What Cinch does when a device, of the fake runtime, has no memory left: it compresses, compresses harder, and moves."""

import json

import pytest

import fake_device
from fake_device import DIVISION, KEPT, start
from programs import BIG

pytestmark = fake_device.needed

@pytest.mark.quick
def test_a_quarter_of_the_memory_is_enough(needed, tmp_path):
    quarter = needed["peak"] // 4
    policy = DIVISION
    run = start(["-c", BIG], tmp_path / "division", policy=policy, memory=quarter)
    trained = json.loads(run.stdout)
    assert trained["peak"] <= quarter
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)


def test_nothing_is_compressed_until_memory_runs_out(needed, tmp_path):
    rescued = DIVISION | {"raw_window": 1000}
    run = start(["-c", BIG], tmp_path / "enough", policy=rescued, memory=needed["peak"] * 2)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues"] == 0
    run = start(["-c", BIG], tmp_path / "short", policy=rescued, memory=needed["peak"] * 10 // 12)
    trained = json.loads(run.stdout)
    assert run.report["rescues"] > 0 and run.report["rescued_bytes"] > 0
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)


def test_rescue_moves_what_it_cannot_compress(needed, tmp_path):
    short = needed["peak"] * 10 // 12
    run = start(["-c", BIG], tmp_path / "rescue", policy=KEPT, memory=short, schedule="random:5", poison=True)
    trained = json.loads(run.stdout)
    assert trained["losses"] == needed["losses"] and trained["peak"] <= short
    assert run.report["rescues"] > 0 and run.report["rescued_by_offload_bytes"] > 0
    assert run.report["rescued_bytes"] == 0
    with pytest.raises(AssertionError, match="OutOfMemoryError"):
        start(["-c", BIG], tmp_path / "none", policy=KEPT | {"offload": {"rescue": False}}, memory=short)


IN_A_POOL = """
import gc, threading
import torch
pool, stop, began = torch.cuda.MemPool(), threading.Event(), threading.Event()
torch.cuda.init()

def beside():
    with torch.cuda.use_mem_pool(pool):
        torch.zeros(1000, device="cuda")
        began.set()
        stop.wait()
"""
# The context is another thread's, or that of the training itself, all of whose forward's memory is then the pool's.
BESIDE_A_POOL = IN_A_POOL + "thread = threading.Thread(target=beside, daemon=True)\nthread.start()\nbegan.wait()\n" + BIG
BESIDE_A_POOL += "stop.set()\nthread.join()\n"
WITHIN_A_POOL = IN_A_POOL + BIG.replace("loss = nn.functional.cross_entropy(model(x), y)", """
    with torch.cuda.use_mem_pool(pool):
        loss = nn.functional.cross_entropy(model(x), y)""")


# What another stream has still to copy, PyTorch does not use again before it leaves the pool: a rescue that moves would
# be in vain within it.
@pytest.mark.parametrize(
    "program, policy",
    [(BESIDE_A_POOL, KEPT), (WITHIN_A_POOL, DIVISION | {"raw_window": 1000})],
    ids=["beside", "within"],
)
def test_a_memory_pool_of_the_program_leaves_rescue_on(needed, program, policy, tmp_path):
    roomy = json.loads(start(["-c", program], tmp_path / "plain").stdout)
    short = roomy["peak"] * 10 // 12
    with pytest.raises(AssertionError, match="OutOfMemoryError"):
        start(["-c", program], tmp_path / "short", memory=short)
    run = start(["-c", program], tmp_path / "rescue", policy=policy, memory=short, schedule="random:5", poison=True)
    assert json.loads(run.stdout)["losses"] == pytest.approx(roomy["losses"], abs=0.05 if policy != KEPT else 0)
    assert run.report["rescues"] > 0


OFF = {"version": 1, "policy": "off", "rescue": {"enabled": True}}


def test_off_leaves_the_program_alone_until_memory_runs_out(needed, tmp_path):
    off = OFF | {"stream": "side"}
    run = start(["-c", BIG], tmp_path / "enough", policy=off, memory=needed["peak"] * 2)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues"] == 0
    short = needed["peak"] * 10 // 12
    options = {"memory": short, "schedule": "random:8", "poison": True}
    run = start(["-c", BIG], tmp_path / "short", policy=off, **options)
    trained = json.loads(run.stdout)
    assert trained["peak"] <= short
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)
    assert run.report["rescues"] >= run.report["rescues_harder"] > 0 and run.report["rescued_harder_bytes"] > 0
    assert any(row["codec"].startswith("division") for row in run.report["ops"])


def test_a_rescue_that_may_not_approximate_does_not(needed, tmp_path):
    short = needed["peak"] * 10 // 12
    exact = {"rescue": {"enabled": True, "harder": False}}
    run = start(["-c", BIG], tmp_path / "moves", policy=OFF | exact, memory=short, poison=True)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues_by_offload"] > 0 and run.report["rescues_harder"] == 0
    for name, policy in {
        "no more to do": OFF | exact | {"offload": {"rescue": False}},
        "none": DIVISION | {"raw_window": 1000, "rescue": {"enabled": False}},
    }.items():
        with pytest.raises(AssertionError, match="OutOfMemoryError"):
            start(["-c", BIG], tmp_path / name, policy=policy, memory=short)


def test_a_rescue_encodes_anew_what_has_many_bits(needed, tmp_path):
    policy = {"version": 1, "policy": "blpa", "blpa": {"bits": 8}, "raw_window": 0, "guard": {"every_steps": 0}}
    policy |= {"offload": {"rescue": False}}
    options = {"schedule": "random:9", "poison": True}
    roomy = start(["-c", BIG], tmp_path / "roomy", policy=policy, **options)
    held = json.loads(roomy.stdout)["peak"]
    assert roomy.report["rescues"] == 0
    run = start(["-c", BIG], tmp_path / "short", policy=policy, memory=held * 11 // 12, **options)
    trained = json.loads(run.stdout)
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)
    assert run.report["rescues_harder"] > 0 and run.report["rescued_bytes"] == 0
    held_by = {row["codec"]: row["count"] for row in run.report["ops"]}
    assert held_by["division 2-bit"] > 0
    assert any(codec.startswith("blpa 8-bit") for codec in held_by), "whose signs are read is left alone"
