# SPDX-License-Identifier: Apache-2.0
"""The adaptive policies in real, unmodified training: what they do step by step, that it learns, that both
streams give the same bits, and that nothing stays behind."""

import json

import pytest

import harness

PROGRAM = """
import json, sys
import torch
from workloads.models import Block, ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(dropout=0), torch.randn(8, 3, 48, 48)
blocks, y = torch.nn.Sequential(Block(dropout=0), Block(dropout=0)), torch.randn(4, 64, 64)
parameters = [*model.parameters(), *blocks.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.02)
losses = []
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = cross_entropy()(model(x)) + blocks(y).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses + [p.double().sum().item() for p in parameters]))
"""

FEATURE_MAPS = ("aten::convolution", "aten::native_batch_norm")

POLICIES = {
    "actnn": {"policy": "actnn", "actnn": {"bits": 3, "every_steps": 5}},
    "acgc": {"policy": "acgc", "acgc": {"every_steps": 5}},
    "acgc_cusz": {"policy": "acgc", "acgc": {"every_steps": 5, "codec": "AutoCuSZ"}},
    "comet": {"policy": "comet", "comet": {"every_steps": 8, "momentum_steps": 4}},
    "comet_paper": {"policy": "comet", "comet": {"every_steps": 8, "mode": "paper"}},
    "blpa": {"policy": "blpa", "blpa": {"bits": 4}},
    "budget": {"policy": "budget", "budget": {"ratio": 6, "every_steps": 10}},
}
STEPS = 24


def policy(name: str, **more) -> dict:
    """The algorithm alone, without the rules of its preset."""
    return {"version": 1, "preset_rules": False} | POLICIES[name] | more


def train(folder, settings, steps=STEPS):
    return harness.run_python(["-c", PROGRAM, steps], folder, settings)


def codecs_of(run, *ops, operand=None):
    """Codecs under which values of these operators' operands, or of one of them, were held, and how often."""
    found = {}
    for row in run.report["ops"]:
        if row["op"] in ops and operand in (None, row["operand"]):
            found[row["codec"]] = found.get(row["codec"], 0) + row["count"]
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By name, when asked for."""
    folder = tmp_path_factory.mktemp("policies")
    done = {}

    def of(name):
        if name not in done:
            done[name] = train(folder / name, policy(name))
        return done[name]

    return of


# Of those that differ in one setting only, the first.
QUICK = [name for name in POLICIES if name not in ("acgc_cusz", "comet_paper")]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.quick] * (n in QUICK)) for n in POLICIES])
def test_learns_as_plain_does(plain, runs, name):
    run = runs(name)
    expected, losses = json.loads(plain.stdout)[:STEPS], json.loads(run.stdout)[:STEPS]
    assert losses[0] == expected[0], "the forward was touched"
    assert losses[-1] < losses[0] - 0.5 * (expected[0] - expected[-1])
    assert harness.new_lines(run.stderr, plain.stderr) == []
    assert run.report["stash_bytes_at_exit"] == 0


@pytest.mark.parametrize("name", ["actnn", "acgc", "comet", "budget"])
def test_both_streams_give_the_same_bits(runs, name, tmp_path):
    side = train(tmp_path, policy(name, stream="side", raw_window=0))
    assert side.stdout == runs(name).stdout


@pytest.mark.parametrize(("name", "window"), [("actnn", 0), ("budget", 0), ("budget", 0.1)])
def test_a_thread_that_lags_gives_the_same_bits(runs, name, window, tmp_path):
    prompt = runs(name) if window == 0 else train(tmp_path / "prompt", policy(name, raw_window=window))
    settings = policy(name, stream="side", raw_window=window)
    slow = {"E2E_SLOW_US": "3000"}
    lags = harness.run_python(["-c", PROGRAM, STEPS], tmp_path, settings, slow, beside=(harness.SLOW_THREAD,))
    assert lags.stdout == prompt.stdout


@pytest.mark.parametrize("name", ["actnn", "budget"])
def test_repeatable(runs, name, tmp_path):
    assert train(tmp_path, policy(name)).stdout == runs(name).stdout


@pytest.mark.quick
def test_actnn_begins_with_8_bits_and_then_mixes(runs):
    used = codecs_of(runs("actnn"), "aten::convolution")
    assert used["group_quant 8-bit"] > 0 and used["group_quant mixed"] > used["group_quant 8-bit"]
    attention = codecs_of(runs("actnn"), "aten::_scaled_dot_product_flash_attention_for_cpu")
    assert {codec for codec in attention if codec != "kept"} == {"group_quant 8-bit"}


def test_mixed_bits_are_decoded_as_they_were_encoded(tmp_path):
    """An average of 8 bits leaves every plane 8: the guard measures next to nothing."""
    settings = {"version": 1, "policy": "actnn", "actnn": {"bits": 8, "every_steps": 5}, "guard": {"every_steps": 1}}
    run = train(tmp_path, settings, steps=12)
    mixed = [row for row in run.report["ops"] if row["codec"].startswith("group_quant mixed")]
    assert sum(row["guard_checks"] for row in mixed) > 0
    assert max(row["worst_relative_error"] for row in mixed) < 0.05


def test_actnn_levels(tmp_path):
    one = train(tmp_path / "1", {"version": 1, "policy": "actnn", "actnn": {"level": "L1"}}, 2)
    assert set(codecs_of(one, "aten::convolution")) == {"group_quant 4-bit", "group_quant 4-bit + sign"}
    assert set(codecs_of(one, "aten::addmm", "aten::gelu")) == {"kept"}
    two = train(tmp_path / "2", {"version": 1, "policy": "actnn", "actnn": {"level": "L2"}}, 2)
    assert set(codecs_of(two, "aten::addmm", "aten::gelu")) == {"group_quant 4-bit"}


@pytest.mark.quick
def test_acgc_begins_uncompressed(runs):
    used = codecs_of(runs("acgc"), "aten::convolution")
    assert used["kept"] > 0
    assert used["fixed_point"] + used["fixed_point + sign"] > 10 * used["kept"]
    assert codecs_of(runs("acgc"), "aten::native_batch_norm").keys() == {"kept", "fixed_point"}
    ratio = codecs_of(runs("acgc_cusz"), "aten::convolution")
    assert "error_bounded_ratio" in ratio


@pytest.mark.quick
def test_comet_warms_up(runs):
    used = codecs_of(runs("comet"), "aten::convolution")
    # Three convolutions, of which the last one's input may still be raw when backward reads it.
    assert used["kept"] <= 8 * 3
    assert used["error_bounded_ratio"] >= (STEPS - 8) * 2
    assert set(codecs_of(runs("comet"), "aten::addmm")) == {"kept"}


@pytest.mark.quick
def test_blpa_covers_its_operators(runs):
    assert any(codec.startswith("blpa 4-bit") for codec in codecs_of(runs("blpa"), *FEATURE_MAPS))
    assert set(codecs_of(runs("blpa"), "aten::gelu")) == {"kept"}


def test_budget_is_kept_and_used(tmp_path):
    settings = {"version": 1, "policy": "budget", "budget": {"ratio": 6}, "guard": {"every_steps": 0}}
    run = train(tmp_path, settings, steps=60)
    assert 5.9 <= run.report["ratio"] < 8


def test_budget_is_kept_in_steps_that_try_and_look(tmp_path):
    """Exact values for trials and for the guard's looks are part of the budget. In the first steps recipes are proved,
    for which sources wait raw."""
    peak_bytes = 768 << 10
    budget = {"peak_bytes": f"{peak_bytes}B", "every_steps": 25}
    run = train(tmp_path, {"version": 1, "policy": "budget", "budget": budget, "guard": {"every_steps": 3}}, steps=80)
    peaks = {}  # by step: where most was held, uncompressed
    for point in (point for point in run.report["memory"] if point["step"] > 20):
        most = peaks.setdefault(point["step"], point)
        if point["raw_bytes"] > most["raw_bytes"]:
            peaks[point["step"]] = point
    assert len(peaks) > 50 and min(point["raw_bytes"] for point in peaks.values()) > 6 * peak_bytes
    assert max(point["stored_bytes"] for point in peaks.values()) <= peak_bytes
    assert sum(row["guard_checks"] for row in run.report["ops"]) > 20


@pytest.mark.parametrize(("ratio", "computes"), [(5, False), (14, True)])
def test_budget_computes_attention_where_bytes_are_dear(ratio, computes, tmp_path):
    """Its output costs the forward's time on the CPU, but next to no bytes."""
    run = train(tmp_path, {"version": 1, "policy": "budget", "budget": {"ratio": ratio}}, steps=60)
    outputs = codecs_of(run, "aten::_scaled_dot_product_flash_attention_for_cpu", operand="result0")
    derived = [count for codec, count in outputs.items() if codec.startswith("derived")]
    assert sum(outputs.values()) >= 2 * 60 and derived
    assert (sum(derived) > 60) == computes, outputs


def test_budget_says_what_cannot_be(tmp_path):
    """Once all layers were tried."""
    run = train(tmp_path, {"version": 1, "policy": "budget", "budget": {"peak_bytes": "64KiB"}}, 42)
    lines = run.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("cinch: budget: 0.06 MiB can't be met: ")


@pytest.mark.quick
def test_budget_begins_with_4_bits_and_measures(runs):
    run = runs("budget")
    assert codecs_of(run, "aten::addmm")["group_quant 4-bit dithered"] > 0
    assert any(event["kind"] == "choice" for event in run.report["events"])
    grouped = {codec for codec in codecs_of(run, "aten::addmm", *FEATURE_MAPS) if codec.startswith("group_quant")}
    assert len(grouped) > 1 and all("dithered" in codec for codec in grouped)


def test_a_resumed_run_begins_with_what_was_learned(runs, tmp_path):
    settings = policy("budget", state_file=str(tmp_path / "learned.json"))
    first, second = train(tmp_path / "first", settings), train(tmp_path / "second", settings, 1)
    assert first.stdout == runs("budget").stdout
    new = train(tmp_path / "new", policy("budget"), 1)
    again, unlearned = (codecs_of(run, "aten::addmm", *FEATURE_MAPS) for run in (second, new))
    # The first steps store what is derived later, by choices of their own.
    assert again != unlearned, "what was learned is there from the first step on"
    assert second.stderr == first.stderr
    (tmp_path / "learned.json").write_text("{}")
    lines = train(tmp_path / "third", settings, 2).stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("cinch: state_file: can't use ")


ACCUMULATION = """
import json, sys
import torch
from workloads.models import ConvNet, cross_entropy
torch.manual_seed(0)
model = ConvNet(dropout=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
scaler = torch.amp.GradScaler("cpu", init_scale=float(sys.argv[1]))
losses = []
for step in range(12):
    optimizer.zero_grad()
    for size in (32, 48, 32):  # graphs change from one backward to the next
        x = torch.linspace(-1, 1, 4 * 3 * size * size).sin().reshape(4, 3, size, size)
        loss = cross_entropy()(model(x))
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print(json.dumps(losses))
"""


@pytest.mark.parametrize("name", ["acgc", "comet", "actnn", "budget"])
def test_accumulation_changing_shapes_and_loss_scale(name, tmp_path):
    """A power of two as loss scale changes no decision: gradients count as ratios only."""
    results = {}
    for scale in (1, 1024):
        folder = tmp_path / str(scale)
        run = harness.run_python(["-c", ACCUMULATION, scale], folder, policy(name))
        losses = json.loads(run.stdout)
        assert losses[-1] < losses[0]
        assert run.stderr == "", run.stderr
        results[scale] = losses
    assert results[1] == pytest.approx(results[1024], rel=1e-3)


NO_OPTIMIZER = """
import torch
from workloads.models import ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(dropout=0), torch.randn(8, 3, 48, 48)
for step in range(12):
    loss = cross_entropy()(model(x))
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.02 * p.grad
            p.grad = None
"""


def test_programs_without_an_optimizer_have_steps_too(tmp_path):
    run = harness.run_python(["-c", NO_OPTIMIZER], tmp_path, policy("acgc"))
    assert codecs_of(run, "aten::convolution")["fixed_point"] > 0


@pytest.mark.quick
def test_explain_says_it_in_words():
    done = harness.run([harness.CINCH, "policy", "explain", "budget"], harness.plain_environment())
    assert done.status == 0 and "A budget: activations are held in 1/10" in done.stdout
    wrong = harness.run([harness.CINCH, "policy", "explain", "bugdet"], harness.plain_environment())
    assert wrong.status == 2 and 'did you mean "budget"?' in wrong.stderr
