# SPDX-License-Identifier: Apache-2.0
"""How far gradients scatter around the exact one, by policy: the short form of tests/bench/gradient_variance.py.
Draws follow from Cinch's own random stream, so the figures are the same in every run."""

import pytest
import torch

import harness

WARM_UP, DRAWS = 44, 8  # trials of all layers come before the draws

PROGRAM = """
import sys
import torch
from torch import nn
warm_up, draws, decades = map(int, sys.argv[2:])
torch.manual_seed(0)
def block(i, o):
    return [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
model = nn.Sequential(*block(3, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), *block(32, 32), nn.MaxPool2d(2),
                      *block(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))
x, y = torch.randn(16, 3, 32, 32) * torch.logspace(-decades, 0, 16).view(16, 1, 1, 1), torch.randint(4, (16,))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
gradients = []
for step in range(warm_up + draws):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if step >= warm_up:
        gradients.append(torch.cat([p.grad.flatten().clone() for p in model.parameters()]))
torch.save(torch.stack(gradients), sys.argv[1])
"""

BARE = {"version": 1, "raw_window": 0, "guard": {"every_steps": 0}}


def gradients(folder, settings, decades, warm_up, draws):
    folder.mkdir()
    output = folder / "gradients.pt"
    program = ["-c", PROGRAM, output, warm_up, draws, decades]
    run = harness.run_python(program, folder, settings, {"OMP_NUM_THREADS": "1"})
    return torch.load(output), run.report


@pytest.fixture(params=[0, 3], scope="module")
def measured(request, tmp_path_factory):
    """The mean of |ĝ - g|² / |g|² and the bytes stored at the peak, where samples' sizes spread over so many decades."""
    folder = tmp_path_factory.mktemp("variance")
    exact = gradients(folder / "plain", None, request.param, 0, 1)[0][0]

    def of(name, settings, warm_up=4):
        draws, report = gradients(folder / name, BARE | settings, request.param, warm_up, DRAWS)
        error = (draws - exact).square().sum(1).mean() / exact.square().sum()
        return error.item(), report["stored_bytes_at_peak"]

    of.decades = request.param
    return of


MIXED = {"policy": "actnn", "actnn": {"level": "L3", "bits": 3, "every_steps": 1000}}


def test_by_policy_in_as_many_bytes(measured):
    mixed = measured("mixed", MIXED)
    if measured.decades:  # samples of different ranges are what mixed precision tells apart
        equal = measured("equal", {"policy": "actnn", "actnn": {"level": "L2", "fixed_bits": 3}})
        assert 0 < mixed[0] < 0.5 * equal[0]
        assert mixed[1] < 1.1 * equal[1], "norms have the average at least"
    else:  # layers are what a budget tells apart
        budget = {"peak_bytes": f"{mixed[1]}B", "every_steps": 1000}
        error, stored = measured("budget", {"policy": "budget", "budget": budget}, WARM_UP)
        assert stored <= mixed[1]
        assert 0 < error <= mixed[0]
