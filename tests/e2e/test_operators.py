# SPDX-License-Identifier: Apache-2.0
"""Single operators and views: under a lossless policy every gradient is the same bits."""

import pytest
import torch

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("operators", tmp_path_factory.mktemp("operators"))


@pytest.mark.parametrize("name", registry.load("operators"))
def test_same_bits(pair, name):
    pair.check(name)


def test_silent(pair):
    pair.check_silence()


BOUNDED = """
import sys
import torch
import torch.nn.functional as F
torch.manual_seed(0)
weights = [torch.randn(64, 64, requires_grad=True) for _ in range(5)]
x = torch.randn(64, 64)
for step in range(4):
    y = F.relu6(x @ weights[0], inplace=True)
    y = F.relu6(y @ weights[1])
    y = F.hardtanh(y @ weights[2], -1, 2)
    y = F.hardsigmoid(y @ weights[3])
    F.silu(y @ weights[4], inplace=True).exp().sum().backward()
torch.save([w.grad for w in weights], sys.argv[1])
"""


def test_bounded_operators_take_one_bit(tmp_path):
    """Their backward compares the input with bounds and reads no more of it."""
    harness.run_python(["-c", BOUNDED, tmp_path / "plain.pt"], tmp_path / "plain")
    report = harness.run_python(["-c", BOUNDED, tmp_path / "cinch.pt"], tmp_path / "cinch", harness.LOSSLESS).report
    plain, cinch = (torch.load(tmp_path / name) for name in ("plain.pt", "cinch.pt"))
    assert all(harness.same_bits(a, b) for a, b in zip(plain, cinch, strict=True))
    ops = {(op["op"], op["operand"], op["codec"]): op for op in report["ops"]}
    for name, least in {"hardtanh": 6, "hardtanh_": 3, "hardsigmoid": 3}.items():
        row = ops["aten::" + name, "self", "interval"]
        # The first of each may have been saved before anybody knew what it was.
        assert row["count"] >= least
        assert row["raw_bytes"] == 32 * row["stored_bytes"]
    # An in-place operator saves a copy of what it modifies, which is still its argument "self".
    assert ops["aten::silu_", "self", "exponent_pack"]["count"] >= 3


RARELY_BOUNDED = """
import torch
import torch.nn.functional as F
small, large = (torch.randn(n, n, requires_grad=True) for n in (64, 2048))
other = torch.zeros(2)
for step in range(60):
    F.relu6(small * 1.0).exp().sum().backward()
    for _ in range(3000):
        other = other + 1
for step in range(6):
    F.relu6(large * 1.0).exp().sum().backward()
"""


def test_arguments_are_recorded_where_that_pays(tmp_path):
    """The bounds of 16 KiB a step are not worth looking at 3,000 operators for long; those of 16 MiB are."""
    report = harness.run_python(["-c", RARELY_BOUNDED], tmp_path, harness.LOSSLESS).report
    rows = {op["codec"]: op for op in report["ops"] if (op["op"], op["operand"]) == ("aten::hardtanh", "self")}
    assert rows["interval"]["count"] >= 10
    assert rows["exponent_pack"]["count"] >= 20
    assert rows["interval"]["raw_bytes"] >= 3 * 2**24
