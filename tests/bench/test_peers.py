# SPDX-License-Identifier: Apache-2.0
"""What the study of Cinch's peers computes without training anything."""

import json
import pathlib
import sys

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "peers")]

import changes  # noqa: E402
import peers  # noqa: E402
from kept_runs import KeptRuns  # noqa: E402
from quantized_hooks import LEAST_ELEMENTS, Packed, Quantizer  # noqa: E402
from results import activations, render  # noqa: E402
from saved_bytes import SavedBytes  # noqa: E402
from variants import MODELS, PLAIN, variants  # noqa: E402


@pytest.mark.parametrize("bits", [2, 4])
def test_quantizer_returns_values_within_a_step(bits):
    quantizer = Quantizer([], bits)
    tensor = torch.randn(3, 211, 131)  # its last group is not full
    packed = quantizer.pack(tensor)
    decoded = quantizer.unpack(packed)
    assert decoded.shape == tensor.shape and decoded.dtype == tensor.dtype
    groups = packed.scale.numel()
    assert packed.codes.dtype == torch.uint8 and packed.codes.numel() == groups * 256 * bits // 8
    step = packed.scale.expand(-1, 256).reshape(-1)[: tensor.numel()].view(tensor.shape)
    assert ((decoded - tensor).abs() <= step * 1.0001).all()


@pytest.mark.parametrize("bits", [2, 4])
def test_quantizer_is_unbiased(bits):
    quantizer = Quantizer([], bits)
    tensor = torch.randn(LEAST_ELEMENTS)
    rounds = 100
    errors = sum(quantizer.unpack(quantizer.pack(tensor)) - tensor for _ in range(rounds)) / rounds
    scale = quantizer.pack(tensor).scale.expand(-1, 256).reshape(-1)
    # A draw is off by at most half a step in the root of the mean square, and these are the means of `rounds`.
    assert ((errors / scale).square().mean().sqrt() < 0.5 / rounds**0.5).all()
    assert abs((errors / scale).mean()) < 5 * 0.5 / (rounds * tensor.numel()) ** 0.5


def test_quantizer_keeps_constant_groups_and_other_types():
    quantizer = Quantizer([], 2)
    constant = torch.full((LEAST_ELEMENTS,), 1.5)
    assert torch.equal(quantizer.unpack(quantizer.pack(constant)), constant)
    half = torch.randn(LEAST_ELEMENTS).bfloat16()
    assert quantizer.unpack(quantizer.pack(half)).dtype == torch.bfloat16


def test_quantizer_leaves_parameters_small_tensors_and_integers():
    weight = torch.nn.Parameter(torch.randn(256, 256))
    quantizer = Quantizer([weight], 2)
    for tensor in (weight, weight.t(), torch.randn(LEAST_ELEMENTS - 1), torch.arange(LEAST_ELEMENTS)):
        assert quantizer.pack(tensor) is tensor
    assert isinstance(quantizer.pack(torch.randn(256, 256)), Packed)


def test_saved_bytes_are_those_that_autograd_keeps():
    weight = torch.randn(64, 64, requires_grad=True)
    block = torch.nn.Sequential(torch.nn.Sigmoid(), torch.nn.Sigmoid(), torch.nn.Sigmoid())
    x = torch.randn(32, 64)
    size = 32 * 64 * 4

    def peak(forward):
        with SavedBytes([weight]) as saved:
            forward(x @ weight).sum().backward()
        return saved.peak

    assert peak(block) == 4 * size  # x, and each sigmoid's result
    # x and the block's input, and what is recomputed.
    assert peak(lambda y: checkpoint(block, y, use_reentrant=False)) == 5 * size
    bytes_of = lambda tensor: tensor.to(torch.uint8)  # noqa: E731

    def quantized(y):
        with saved_tensors_hooks(bytes_of, lambda packed: packed.float()):
            return block(y)

    assert peak(quantized) == size + 3 * size // 4
    assert saved_tensors_hooks.__init__.__qualname__ == "saved_tensors_hooks.__init__"


def test_every_change_fits_and_is_counted():
    names = variants(None)
    for model in MODELS:
        counts = {name: changes.touched_lines(variant.change(model)) for name, variant in names.items()}
        for name, variant in names.items():
            compile(changes.changed(variant.change(model)), name, "exec")
            assert (counts[name] == 0) == (variant.preload != "" or variant.cinch is not None or name == PLAIN)
        assert counts["checkpoint"] == 4 and counts["compile"] == 2
        file = changes.code_lines((HERE / "peers/quantized_hooks.py").read_text())
        assert counts["hooks, 2 bits"] == 5 + len(file)


def test_lines_that_are_missing_are_an_error():
    with pytest.raises(ValueError, match="found 'b.n' 0 times, expected once"):
        changes.changed(changes.Change({"b\n": "c\n"}), "a\n")


def test_default_policy_is_a_row_of_its_own_where_it_differs():
    assert variants("default")["cinch default"].cinch == ()
    assert variants("budget")["cinch budget"].cinch == ()
    assert variants("budget")["cinch default"].cinch == ("--policy", "default")
    assert variants("newer")["cinch (default)"].cinch == () and "`newer`" in variants("newer")["cinch (default)"].note


def figures_of(seed):
    return {
        "metric": 90.0 + seed, "step_seconds": [9.0, 1.0, 1.0, 0.1, 0.2], "saved_bytes": 100 << 20,
        "peak_rss_bytes": 600 << 20, "peak_rss_growth_bytes": 200 << 20,
    }  # fmt: skip


def made(variant, seed, **figures):
    run = {"model": "resnet", "variant": variant, "seed": seed, "steps": 5, "threads": 2}
    return run | ({} if "error" in figures else figures_of(seed)) | figures


@pytest.fixture
def results(tmp_path):
    about = {"date": "2026-01-02", "machine": "a machine", "torch": "2.11.0", "threads": 2, "command": "peers.py"}
    return KeptRuns(tmp_path / "deep/peers.json", about)


def test_runs_are_kept_and_not_made_again(results, monkeypatch):
    results.add(made(PLAIN, 0))
    results.add(made("compile", 0, error="RuntimeError: no compiler"))
    again = KeptRuns.load(results.file)
    assert again.about == results.about and again.runs == results.runs
    assert again.has(made(PLAIN, 0)) and not again.has(made(PLAIN, 1)) and not again.has(made("compile", 0))
    assert not again.has(made(PLAIN, 0) | {"steps": 6})

    calls = []

    def run(model, variant, seed, steps, threads, options):
        calls.append((variant.note, seed))
        return figures_of(seed)

    monkeypatch.setattr(peers, "run", run)
    chosen = {name: v for name, v in variants(None).items() if name in (PLAIN, "compile")}
    options = peers.argparse.Namespace(seeds=2, models=["resnet"], steps=5, quick=False, threads=2)
    peers.study(again, chosen, options)
    plain, compiled = chosen[PLAIN].note, chosen["compile"].note
    assert calls == [(compiled, 0), (compiled, 1), (plain, 1)]  # the order is reversed for the second seed
    assert len(KeptRuns.load(results.file).runs) == 4
    assert not any("error" in run for run in json.loads(results.file.read_text())["runs"])


def test_what_cinch_did_not_take_counts_in_full():
    run = made("cinch default", 0, raw_bytes_at_peak=90 << 20, stored_bytes_at_peak=9 << 20)
    assert activations(run) == 19 << 20
    assert activations(run | {"raw_bytes_at_peak": 110 << 20}) == 9 << 20


def test_document_has_a_row_for_every_variant(results):
    chosen = variants("default")
    for seed in range(3):
        results.add(made(PLAIN, seed))
        results.add(made("cinch default", seed, metric=89.5 + seed, raw_bytes_at_peak=100 << 20, stored_bytes_at_peak=10 << 20))
        results.add(made("jemalloc", seed, error="jemalloc | is not installed"))
    results.add(made("compile", 0, step_seconds=[60.0, 1.0, 1.0, 0.3, 0.3]))
    results.add(made("compile", 1, error="RuntimeError: no compiler"))
    text = render(results, chosen)
    rows = {line.split(" | ")[0][2:]: line for line in text.splitlines() if line.startswith("| ")}
    assert rows[PLAIN] == "| plain | 100 | 600 | 200 | 150 | 91.00 | 0 |"
    assert rows["cinch default"] == "| cinch default | 10 (0.10 x) | 600 | 200 (1.00 x) | 150 (1.00 x) | 90.50 (-0.50) | 0 |"
    assert "failed: jemalloc \\| is not installed" in rows["jemalloc"]
    assert "not run" in rows["checkpoint"]
    assert rows.keys() >= chosen.keys()
    assert "* compile: 1 of 2 runs failed: RuntimeError: no compiler" in text
    assert "* compile: the first step took 60 s." in text
    assert "medians over 3 seeds" in text and "## GPT" not in text


@pytest.mark.parametrize(
    "status, stderr, line",
    [
        (1, "warning\nTraceback (most recent call last):\n  x\ntorch.Some.Error: it\nhint\n", "torch.Some.Error: it"),
        (1, "Traceback (most recent call last):\n  x\nValueError: it\n", "ValueError: it"),
        (2, "cinch: no such thing\n", "cinch: no such thing"),
        (-9, "", "killed by signal 9"),
        (3, "", "exit status 3"),
    ],
)
def test_error_line(status, stderr, line):
    assert peers.error_line(status, stderr) == line


def test_program_that_takes_too_long_is_killed():
    status, stderr = peers.start(["sh", "-c", "sleep 60 & wait"], {"PATH": "/usr/bin:/bin"}, 0.2)
    assert status != 0 and peers.error_line(status, stderr) == "TimeoutError: not done after 0 s"
