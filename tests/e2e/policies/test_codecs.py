# SPDX-License-Identifier: Apache-2.0
"""Every codec that a policy can name, in a real training: it is used, it learns, and it saves memory."""

import json

import pytest

import harness

PROGRAM = """
import json
import torch
from workloads.models import ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(), torch.randn(16, 3, 64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses, gradient = [], None
for step in range(6):
    optimizer.zero_grad()
    loss = cross_entropy()(model(x))
    loss.backward()
    if step == 0:
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({"losses": losses, "gradient": gradient}))
"""

CODECS = [
    {"name": "division", "bits": 4},
    {"name": "division", "bits": 4, "group": 256, "dither": "subtractive"},
    {"name": "group_quant", "bits": 4},
    {"name": "two_sided", "bits": 4},
    {"name": "blpa", "bits": 4},
    {"name": "fixed_point", "error_bound": 0.05},
    {"name": "dct", "error_bound": 0.05},
    {"name": "error_bounded_ratio", "error_bound": 0.05, "refresh": 2},
    {"name": "exponent_pack"},
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return harness.run_python(["-c", PROGRAM], tmp_path_factory.mktemp("plain"))


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


QUICK = ("group_quant", "exponent_pack")


@pytest.mark.parametrize(
    "codec",
    [pytest.param(c, id=c["name"] + "_in_groups" * ("group" in c), marks=[pytest.mark.quick] if c["name"] in QUICK else []) for c in CODECS],
)
def test_trains(plain, codec, tmp_path):
    rules = [{"match": {"op": "*"}, "codec": codec}]
    policy = {"version": 1, "policy": "division", "rules": rules, "preset_rules": False}
    run = harness.run_python(["-c", PROGRAM], tmp_path, policy)
    assert harness.new_lines(run.stderr, plain.stderr) == []
    expected, result = json.loads(plain.stdout), json.loads(run.stdout)
    used = [row for row in run.report["ops"] if row["codec"].startswith(codec["name"])]
    assert sum(row["stored_bytes"] for row in used) > 0
    assert all("in groups dithered" in row["codec"] for row in used) == ("group" in codec)
    assert result["losses"][0] == expected["losses"][0], "forward was touched"
    assert result["losses"][-1] < result["losses"][0]
    if codec["name"] == "exponent_pack":
        assert result == expected
        return
    assert result["gradient"] != expected["gradient"], "nothing was approximated"
    assert cosine(result["gradient"], expected["gradient"]) > 0.95
    assert run.report["ratio"] > 2


def test_float64_is_taken_and_exact(tmp_path):
    program = "import torch; torch.set_default_dtype(torch.float64)\n" + PROGRAM
    policy = {"version": 1, "policy": "lossless", "min_bytes": 0}
    expected = harness.run_python(["-c", program], tmp_path)
    run = harness.run_python(["-c", program], tmp_path, policy)
    assert run.stdout == expected.stdout
    used = [row for row in run.report["ops"] if row["codec"].startswith("exponent_pack")]
    assert sum(row["stored_bytes"] for row in used) > 0
