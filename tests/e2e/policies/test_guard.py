# SPDX-License-Identifier: Apache-2.0
"""The guard finds classes that compression harms, and holds them more precisely."""

import pytest

import harness

PROGRAM = """
import json
import torch
from workloads.models import Block
torch.manual_seed(0)
model = torch.nn.Sequential(Block(dropout=0), Block(dropout=0))
x = torch.randn(2, 64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
for step in range(80):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


def run(tmp_path, guard, rules, policy="division"):
    content = {"version": 1, "policy": policy, "guard": guard, "rules": rules, "preset_rules": False, "raw_window": 0}
    return harness.run_python(["-c", PROGRAM], tmp_path, content)


ONE_BIT = [{"match": {"op": "aten::*"}, "codec": {"name": "group_quant", "bits": 1}}]


def codecs_of(done, op):
    return {row["codec"]: row for row in done.report["ops"] if row["op"] == op}


@pytest.mark.parametrize("limit", ["max_relative_error", "max_gradient_error"])
def test_moves_to_more_bits_until_it_is_content(limit, tmp_path):
    guard = {"every_steps": 1, "max_relative_error": 1e6, "max_gradient_error": 1e6} | {limit: 0.01}
    done = run(tmp_path, guard, ONE_BIT)
    rows = codecs_of(done, "aten::gelu")
    assert {"group_quant 1-bit", "group_quant 2-bit", "group_quant 4-bit"} <= rows.keys()
    one_bit = rows["group_quant 1-bit"]
    assert one_bit["guard_checks"] > 0
    assert one_bit["guard_moves"] == 2, "two layers"
    measured = "worst_relative_error" if limit == "max_relative_error" else "worst_gradient_error"
    assert one_bit[measured] > rows["group_quant 2-bit"][measured] > rows["group_quant 4-bit"][measured] > 0
    lines = done.stderr.splitlines()
    assert len(lines) == sum(row["guard_moves"] for row in done.report["ops"])
    assert all(line.startswith("cinch: guard: aten::") for line in lines)


@pytest.mark.quick
def test_says_nothing_where_nothing_is_wrong(tmp_path):
    rules = [{"match": {"op": "aten::*"}, "codec": {"name": "group_quant", "bits": 8}}]
    done = run(tmp_path, {"every_steps": 1}, rules)
    assert done.stderr == ""
    checked = [row for row in done.report["ops"] if row["guard_checks"]]
    assert checked and all(0 < row["worst_relative_error"] < 0.05 for row in checked)
    assert any(0 < row["worst_gradient_error"] < 0.05 for row in checked)


@pytest.mark.quick
def test_looking_changes_nothing(tmp_path):
    """Watched entries are decoded all the same: a look is no exception to the policy."""
    rules = [{"match": {"op": "aten::*"}, "codec": {"name": "group_quant", "bits": 4}}]
    never = {"every_steps": 0}
    always = {"every_steps": 1, "max_relative_error": 1e6, "max_gradient_error": 1e6}
    results = [run(tmp_path / name, guard, rules).stdout for name, guard in (("never", never), ("always", always))]
    assert results[0] == results[1]


def test_attention_at_two_bits_does_not_stay_there(tmp_path):
    """The measured hole (docs/policies.md), closed by the default limits."""
    rules = [{"match": {"op": "aten::_scaled_dot_product*"}, "codec": {"name": "group_quant", "bits": 1}}]
    done = run(tmp_path, {"every_steps": 1}, rules)
    moved = [row for row in done.report["ops"] if "scaled_dot" in row["op"] and row["guard_moves"]]
    assert moved
