# SPDX-License-Identifier: Apache-2.0
"""Nothing accumulates: over many steps of whatever a program may do, memory stays where it was."""

import json

import pytest

import harness

MEBIBYTE = 2**20

PROGRAM = """
import gc, json
import torch
from torch import nn
import live
from workloads.autograd import Failing, deep
from workloads.models import Block, ConvNet, cross_entropy

def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

torch.manual_seed(0)
images, sequence = torch.randn(8, 3, 48, 48), torch.randn(8, 32, 64)
convolutional, transformer = ConvNet(), nn.Sequential(Block(), Block(dropout=0))

def train():
    cross_entropy()(convolutional(images)).backward()
    transformer(sequence).square().mean().backward()

def forward_only():
    convolutional(images), transformer(sequence)

def walk_twice():
    loss = transformer(sequence).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()

def fail():
    try:
        deep(Failing.apply(convolutional(images))).sum().backward()
    except ValueError:
        pass

def many_small():
    x = torch.randn(4, requires_grad=True)
    deep(x, 200).sum().backward()

resident = {}
for step in (train, forward_only, walk_twice, fail, many_small):
    resident[step.__name__] = []
    for _ in range(50):
        step()
        convolutional.zero_grad(), transformer.zero_grad()
        gc.collect()
        resident[step.__name__].append(resident_bytes())
print(json.dumps({"resident": resident, "stash": live.stash_bytes(), "taken": live.taken()}))
"""


@pytest.fixture(scope="module", params=[harness.LOSSLESS, "division"], ids=["lossless", "division"])
def outcome(request, tmp_path_factory):
    return json.loads(harness.run_python(["-c", PROGRAM], tmp_path_factory.mktemp("memory"), request.param).stdout)


@pytest.mark.parametrize("step", ["train", "forward_only", "walk_twice", "fail", "many_small"])
def test_stable_over_fifty_steps(outcome, step):
    """Thirty steps save 150 MiB or more (many_small: 12,000 tensors), so that keeping one tensor in
    fifty would be seen."""
    resident = outcome["resident"][step]
    assert max(resident[40:]) - max(resident[10:20]) < 4 * MEBIBYTE


def test_nothing_is_held(outcome):
    assert outcome["taken"] > 0
    assert outcome["stash"] == 0


LARGE = """
import json, sys
import torch
from torch import nn
from workloads.models import Block, ConvNet, cross_entropy

def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))

torch.manual_seed(0)
if sys.argv[1] == "transformer":
    model, x = nn.Sequential(*[Block(256, 8) for _ in range(6)]), torch.randn(8, 256, 256)
    loss_of = lambda output: output.square().mean()
else:
    model, x, loss_of = ConvNet(), torch.randn(32, 3, 128, 128), cross_entropy()
for _ in range(4):
    loss_of(model(x)).backward()
print(json.dumps(peak_bytes()))
"""


@pytest.fixture(scope="module", params=["transformer", "convolutions"])
def large(request, tmp_path_factory):
    """Runs LARGE under a policy; gives its peak RSS."""
    folder = tmp_path_factory.mktemp("large")

    def peak(policy):
        return json.loads(harness.run_python(["-c", LARGE, request.param], folder, policy).stdout)

    return peak, peak(None)


@pytest.mark.parametrize("policy", [harness.LOSSLESS, "lossless", "division"], ids=["all", "lossless", "division"])
def test_never_more_memory_than_without(large, policy):
    """Of plain peaks of about 900 MiB; the 2 % are what the peak wanders by itself."""
    peak, plain = large
    assert peak(policy) <= 1.02 * plain


def test_declining_costs_no_memory(large):
    """The hooks alone, PyTorch's own allocator."""
    peak, plain = large
    declining = {"version": 1, "policy": "division", "min_bytes": 2**52, "allocator": {"enabled": False}}
    assert peak(declining) <= 1.02 * plain
