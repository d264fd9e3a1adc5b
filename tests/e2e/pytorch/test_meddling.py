# SPDX-License-Identifier: Apache-2.0
"""Programs that resize, tag and peek train as without Cinch: the same bits under a lossless policy, and nothing that is
wrong under the default one."""

import pytest

import harness
from workloads import registry


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("meddling", tmp_path_factory.mktemp("meddling"), threads=1)


@pytest.mark.parametrize("name", registry.load("meddling"))
def test_same_bits(pair, name):
    pair.check(name, takes=None)


def test_silent(pair):
    pair.check_silence()


def test_under_the_default_policy(pair, tmp_path):
    run = harness.run_workloads("meddling", tmp_path, "default", threads=1)
    run.check_nothing_is_wrong(pair.plain)


def test_reasons_are_reported(pair):
    reasons = {row["reason"] for row in pair.cinch.run.report["passed_through"]}
    assert "changed by the program after it was saved" in reasons
    assert "saved by an autograd.Function: object of another class, or with attributes" in reasons


# Counts calls of the program's own hooks: around a layer and, in the last steps, on one saved tensor. A recomputed region
# counts none, but refuses a second call.
HOOKS = """
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
first, second, last = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)
parameters = [*first.parameters(), *second.parameters(), *last.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.01)
calls = 0

def unpack(x):
    global calls
    calls += 1
    return x

for step in range(8):
    x = torch.randn(128, 64)
    y = checkpoint(lambda h: second(h).relu(), first(x), use_reentrant=False)
    with saved_tensors_hooks(lambda t: t, unpack):
        y = nn.functional.gelu(last(y))
    if step >= 6:
        product = y * y.detach()
        product.grad_fn._raw_saved_other.register_hooks(lambda t: t, unpack)
        y = y + product
    loss = (first(nn.functional.silu(y)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(calls)
"""


@pytest.fixture(scope="module")
def calls_of_hooks(tmp_path_factory):
    return harness.run_python(["-c", HOOKS], tmp_path_factory.mktemp("hooks")).stdout


@pytest.mark.parametrize("policy", [
    {"policy": "division", "guard": {"every_steps": 1}},
    {"policy": "budget", "budget": {"ratio": 6, "every_steps": 1}, "guard": {"every_steps": 1}},
    {"policy": "acgc", "acgc": {"every_steps": 1}},
    {"policy": "comet", "comet": {"every_steps": 1}},
    {"policy": "actnn", "actnn": {"level": "L3", "every_steps": 1}},
], ids=lambda policy: policy["policy"])  # fmt: skip
def test_the_programs_hooks_are_called_as_often(calls_of_hooks, tmp_path, policy):
    under = harness.run_python(["-c", HOOKS], tmp_path, {"version": 1, "min_bytes": 0} | policy)
    assert under.stdout == calls_of_hooks
