# SPDX-License-Identifier: Apache-2.0
"""What looks at values, on "cuda" tensors of the fake runtime: the guard and the policies that adapt."""

import json

import pytest

import fake_device
import programs

pytestmark = fake_device.needed

PROGRAM = (
    programs.BEGINNING
    + programs.MODEL
    + """
losses = []
for step in range(steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""
)

def train(folder, policy, device="cuda", steps=8, says="", **fake):
    run = fake_device.start(["-c", PROGRAM, device, str(steps)], folder, device, policy, says, **fake)
    return json.loads(run.stdout), run


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), None)[0]


def guarded(report):
    """What the guard found, by operator, operand and codec."""
    fields = "guard_checks", "guard_moves", "worst_relative_error", "worst_gradient_error"
    rows = [row for row in report["ops"] if row["guard_checks"]]
    return {(row["op"], row["operand"], row["codec"]): [row[field] for field in fields] for row in rows}


@pytest.mark.parametrize("stream, schedule", [("current", "random:1"), ("side", "random:2")])
def test_the_guard_finds_what_it_finds_on_the_cpu(stream, schedule, tmp_path):
    one_bit = [{"match": {"op": "aten::*"}, "codec": {"name": "group_quant", "bits": 1}}]
    guard = {"every_steps": 1, "max_relative_error": 0.01, "max_gradient_error": 0.01}
    policy = programs.UNGUARDED | {"policy": "division", "guard": guard, "rules": one_bit, "stream": stream}
    losses, run = train(tmp_path / "cuda", policy, says=..., schedule=schedule, poison=True)
    expected, on_cpu = train(tmp_path / "cpu", policy, "cpu", says=...)
    assert losses == expected
    assert guarded(run.report) == guarded(on_cpu.report) != {}
    codecs = {row["codec"] for row in run.report["ops"]}
    assert {"group_quant 1-bit", "group_quant 2-bit"} <= codecs


def test_the_guards_samples_give_way_when_memory_runs_out(needed, tmp_path):
    looks = {"every_steps": 1, "max_relative_error": 1e6, "max_gradient_error": 1e6}
    trained = []
    for name, guard in ("never", {"every_steps": 0}), ("always", looks):
        policy = fake_device.DIVISION | {"guard": guard}
        run = fake_device.start(["-c", programs.BIG], tmp_path / name, policy=policy, memory=needed["peak"] // 5)
        trained.append(json.loads(run.stdout)["losses"])
    assert trained[0] == trained[1]


@pytest.mark.quick
def test_fixed_actnn_is_the_cpus(tmp_path):
    policy = programs.UNGUARDED | {"policy": "actnn", "actnn": {"level": "L2"}}
    losses, run = train(tmp_path / "cuda", policy, schedule="random:1", poison=True)
    assert losses == train(tmp_path / "cpu", policy, "cpu")[0]
    assert any(row["codec"] == "group_quant 4-bit" for row in run.report["ops"])


def test_mixed_actnn_adapts_and_offloads(plain, tmp_path):
    found = {}
    for level in "L3", "L4", "L5":
        settings = {"level": level, "bits": 4, "every_steps": 3}
        policy = programs.UNGUARDED | {"policy": "actnn", "actnn": settings, "offload": {"min_bytes": 0}}
        found[level], run = train(tmp_path / level, policy, schedule="random:2", poison=True)
        assert any(row["codec"] == "group_quant mixed" for row in run.report["ops"])
        assert any(event["kind"] == "choice" for event in run.report["events"])
        assert (run.report["offloads"] > 0) == (level != "L3")
        assert run.report["ratio"] > 3
    assert found["L3"] == found["L4"] == found["L5"]
    assert found["L3"] == pytest.approx(plain, abs=0.02)


def test_a_budget_is_kept(plain, tmp_path):
    policy = programs.UNGUARDED | {"policy": "budget", "budget": {"ratio": 4}}
    losses, run = train(tmp_path, policy, steps=30, schedule="random:3", poison=True)
    assert run.report["ratio"] >= 4
    assert any(event["kind"] == "choice" for event in run.report["events"])
    assert losses[:8] == pytest.approx(plain, abs=0.05)


def test_a_budget_may_move_what_bits_cannot_hold(plain, tmp_path):
    """At a ratio of 32 activations would have less than a bit an element, with their ranges."""
    stored = {}
    for offload, says in (False, "can't be met"), (True, ""):
        budget = {"ratio": 32, "offload": offload}
        policy = programs.UNGUARDED | {"policy": "budget", "budget": budget, "offload": {"min_bytes": 0}}
        folder = tmp_path / str(offload)
        losses, run = train(folder, policy, steps=42, says=says, schedule="random:3", poison=True)
        assert losses[:8] == pytest.approx(plain, abs=0.1)
        assert (run.report["offloads"] > 0) == offload
        stored[offload] = run.report["stored_bytes_at_peak"]
    assert stored[True] < stored[False]
