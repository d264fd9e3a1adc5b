# SPDX-License-Identifier: Apache-2.0
"""Tensors of which only the origin is known: custom autograd.Functions and compiled regions."""

import pytest

import harness

FUNCTIONS = """
import torch
class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g
torch.manual_seed(0)
x = torch.randn(128, 512, requires_grad=True)
for step in range(4):
    Squared.apply(Exponential.apply(x * 0.1) + 0.1).sigmoid().sum().backward()
print(x.grad.double().sum().item())
"""

COMPILED = """
import torch
from workloads.models import Block
torch.manual_seed(0)
model = torch.compile(torch.nn.Sequential(Block(dropout=0), Block(dropout=0)), backend="aot_eager")
x = torch.randn(4, 64, 64)
for step in range(5):
    model.zero_grad()
    model(x).square().mean().backward()
print(torch.cat([p.grad.flatten() for p in model.parameters()]).double().norm().item())
"""


def rows(done, op):
    return {row["codec"]: row for row in done.report["ops"] if row["op"] == op}


def policy(**fields) -> dict:
    bare = {"version": 1, "policy": "division", "preset_rules": False}
    return bare | {"min_bytes": 0, "raw_window": 0} | fields


@pytest.mark.quick
def test_functions_are_lossless_by_default(tmp_path):
    plain = harness.run_python(["-c", FUNCTIONS], tmp_path / "plain")
    done = harness.run_python(["-c", FUNCTIONS], tmp_path / "cinch", policy())
    assert done.stdout == plain.stdout
    assert rows(done, "Squared").keys() == {"exponent_pack"}
    assert rows(done, "Exponential").keys() == {"exponent_pack"}


@pytest.mark.quick
def test_rules_name_a_functions_class(tmp_path):
    rule = {"match": {"op": "Squared"}, "codec": {"name": "group_quant", "bits": 8}}
    done = harness.run_python(["-c", FUNCTIONS], tmp_path, policy(rules=[rule]))
    assert "group_quant 8-bit" in rows(done, "Squared")
    assert rows(done, "Exponential").keys() == {"exponent_pack"}


@pytest.mark.parametrize("before", [0, 70_000])
def test_the_first_save_has_a_name_unless_much_ran_before(before, tmp_path):
    """Operators' names are recorded in wait of it, but not for ever."""
    program = f"""
import torch
layer, x = torch.nn.Linear(64, 64), torch.randn(512, 64)
with torch.no_grad():
    for _ in range({before}):
        x.neg_()
for step in range(2):
    layer(layer(x * 2).tanh()).tanh().sum().backward()
"""
    done = harness.run_python(["-c", program], tmp_path, policy())
    names = {row["op"] for row in done.report["ops"]}
    assert "aten::addmm" in names and ("" in names) == (before > 0)


def test_functions_may_be_kept(tmp_path):
    done = harness.run_python(["-c", FUNCTIONS], tmp_path, policy(functions={"keep": True}))
    assert rows(done, "Squared").keys() == {"kept"}


def test_compiled_regions_get_eight_bits(tmp_path):
    plain = harness.run_python(["-c", COMPILED], tmp_path / "plain")
    done = harness.run_python(["-c", COMPILED], tmp_path / "cinch", policy())
    held = rows(done, "CompiledFunction")
    assert held["group_quant 8-bit"]["count"] > 0
    assert float(done.stdout) == pytest.approx(float(plain.stdout), rel=0.02)
    assert done.stdout != plain.stdout


def test_compiled_regions_by_choice(tmp_path):
    plain = harness.run_python(["-c", COMPILED], tmp_path / "plain")
    kept = harness.run_python(["-c", COMPILED], tmp_path / "kept", policy(compiled={"keep": True}))
    assert kept.stdout == plain.stdout
    four = {"codec": {"name": "group_quant", "bits": 4}}
    done = harness.run_python(["-c", COMPILED], tmp_path / "four", policy(compiled=four))
    assert "group_quant 4-bit" in rows(done, "CompiledFunction")
    lossless = harness.run_python(["-c", COMPILED], tmp_path / "lossless", harness.LOSSLESS)
    assert lossless.stdout == plain.stdout
