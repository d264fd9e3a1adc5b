# SPDX-License-Identifier: Apache-2.0
"""What the papers' authors claim of training, in training under the preload. Their formulas' tests are with the codecs
and the policies; docs/acceptance.md has the list.

The exact gradient beside a compressed one is computed in the same process, under saved-tensor hooks of the program's
own: they win over Cinch's. Draws follow from Cinch's own random stream, so the figures are the same in every run."""

import json

import pytest

import harness

# Without the presets' rules, which the papers do not have, the window that stays raw, and the guard, which would mend what
# is measured.
BARE = {"version": 1, "preset_rules": False, "raw_window": 0, "min_bytes": 0, "guard": {"every_steps": 0}}

COMMON = """
import json, math
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

def exactly():
    return torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)

def share(error, of):
    return (error.square().sum() / of.square().sum()).item()
"""


def told(folder, program, settings):
    run = harness.run_python(["-c", COMMON + program], folder, BARE | settings)
    assert run.stderr == "", run.stderr
    return json.loads(run.stdout), run.report


def held_by(report, op, codec):
    return sum(row["count"] for row in report["ops"] if row["op"] == op and row["codec"].startswith(codec))


DIVISION = """
from sklearn.datasets import load_digits
digits = load_digits()
x = F.interpolate(torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1, size=(32, 32), mode="bilinear")
y = torch.tensor(digits.target)
def block(i, o):
    return [nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
model = nn.Sequential(*block(1, 8), *block(8, 8), nn.AvgPool2d(2), *block(8, 16), *block(16, 16), nn.AvgPool2d(2),
                      *block(16, 16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
losses = []
for step in range(50):
    rows = torch.randint(1500, (32,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[rows]), y[rows])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

def waves(n):
    angles = math.pi / n * torch.arange(n)[:, None] * (torch.arange(n) + 0.5)
    cosines = torch.cos(angles) * math.sqrt(2 / n)
    cosines[0] /= math.sqrt(2)
    return cosines

def look(module, inputs):
    size = inputs[0].shape[-1]
    squared = (waves(size) @ inputs[0] @ waves(size).T).square()
    edge = round(0.2 * size)
    low = squared[..., :edge, :edge].sum((1, 2, 3))
    high = squared.sum((1, 2, 3)) - low
    ratios.append((low.sqrt().mean() / high.sqrt().mean()).item())

ratios = []
for module in model:
    if isinstance(module, nn.Conv2d):
        module.register_forward_pre_hook(look)
model.eval()
with torch.no_grad():
    model(x[1500:1564])
print(json.dumps({"losses": losses, "ratios": ratios}))
"""


def test_division_low_frequencies_weigh_most(tmp_path):
    """Theorem 3.1's premise: of the inputs of most convolutions of a net that DIVISION trains, the lowest frequencies
    (a fifth of the edge) have the larger norm, though they are a 25th of the numbers."""
    found, report = told(tmp_path, DIVISION, {"policy": "division"})
    assert sum(found["losses"][-10:]) < 0.8 * sum(found["losses"][:10])
    assert held_by(report, "aten::convolution", "division") > 0
    assert sum(ratio > 1 for ratio in found["ratios"]) >= 0.8 * len(found["ratios"])


# Two layers read activations that tolerate very different errors: rows with an outlier each, whose other values share
# its range, and plain ones. SGD takes steps near the largest that are stable without errors.
ACTNN = """
rough = torch.randn(256, 512) / 2
rough[torch.arange(256), torch.randperm(512)[:256]] = 30
plain = torch.randn(4096, 64)
a, b = nn.Linear(512, 8), nn.Linear(64, 8)
ya, yb = rough @ torch.randn(512, 8) / 22, plain @ torch.randn(64, 8) / 8
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=8e-4)
losses = []
for step in range(40):
    optimizer.zero_grad()
    loss = (a(rough * 1) - ya).square().sum() / 2 + (b(plain * 1) - yb).square().sum() / 16
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""


def test_actnn_mixed_2_bits_train_where_uniform_2_bits_fail(tmp_path):
    groups = {"match": {"op": "aten::addmm"}, "codec": {"name": "group_quant", "bits": 2}}
    uniform, equal = told(tmp_path / "uniform", ACTNN, {"policy": "actnn", "actnn": {"level": "L2"}, "rules": [groups]})
    mixed, report = told(tmp_path / "mixed", ACTNN, {"policy": "actnn", "actnn": {"level": "L3", "bits": 2, "every_steps": 20}})
    assert held_by(equal, "aten::addmm", "group_quant 2-bit") > 50
    assert held_by(report, "aten::addmm", "group_quant mixed") > 50
    assert uniform[-1] > 2 * uniform[0], "it diverges"
    assert mixed[-1] < 1e-6 * mixed[0]


BLPA = """
first, norm, relu, second = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1)
last = nn.Conv2d(6, 4, 1)  # what backward reads first is held raw
with torch.no_grad():
    norm.weight.uniform_(0.5, 1.5)
    norm.bias.uniform_(-1, 1)
x, gradient = torch.randn(8, 3, 16, 16), torch.randn(8, 4, 16, 16)
seen = {}

def note(name, tensor):
    tensor.register_hook(lambda t: seen.__setitem__(name, t.clone()))
    return tensor

def gradients():
    for p in (*first.parameters(), *norm.parameters(), *second.parameters()):
        p.grad = None
    normed = note("norm's output", norm(note("norm's input", first(x))))
    last(second(note("relu's output", relu(normed)))).backward(gradient)
    named = {"weight": second.weight, "bias": second.bias, "gamma": norm.weight, "beta": norm.bias}
    return {**seen, **{name: p.grad for name, p in named.items()}}

found = gradients()
with exactly():
    exact = gradients()
    inputs = first(x).detach()

# The norm's input gradient is gamma / sigma (gY - mean gY - A1 mean(A1 gY)): what A1 was taken for follows from it.
variance, mean = torch.var_mean(inputs, (0, 2, 3), correction=0)
def by_channel(t):
    return t.view(1, -1, 1, 1)
scale = by_channel(norm.weight.detach() / (variance + norm.eps).sqrt())
arriving = exact["norm's output"]
third = (arriving - arriving.mean((0, 2, 3), keepdim=True)) - found["norm's input"] / scale
normalized = third / by_channel(found["gamma"] / (inputs.numel() / 8))
real = (inputs - by_channel(mean)) / by_channel((variance + norm.eps).sqrt())
levels = [len(torch.unique((channel * 200).round())) for channel in normalized.transpose(0, 1)]
unclipped = real.abs() < 2.6
print(json.dumps({"same": [name for name in exact if torch.equal(found[name], exact[name])],
                  "errors": {name: math.sqrt(share(found[name] - exact[name], exact[name])) for name in exact},
                  "levels": max(levels), "largest": (normalized - real)[unclipped].abs().max().item()}))
"""


def test_blpa_only_weights_gradients_and_a_norms_third_term_differ(tmp_path):
    found, report = told(tmp_path, BLPA, {"policy": "blpa", "blpa": {"bits": 4}})
    assert held_by(report, "aten::native_batch_norm", "blpa 4-bit") == 1
    assert held_by(report, "aten::convolution", "blpa 4-bit") >= 1
    assert set(found["same"]) == {"relu's output", "norm's output", "bias", "beta"}, "through convolution and ReLU: bit for bit"
    assert 0 < found["errors"]["weight"] < 0.2 and 0 < found["errors"]["gamma"] < 0.2
    assert 0 < found["errors"]["norm's input"] < 0.02
    # What differs of the norm's input gradient is A1 on the grid: at most 16 values a channel, 3/16 off.
    assert found["levels"] <= 16
    assert found["largest"] <= 3 / 16 + 0.01


ACGC = """
def block(i, o):
    return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU()]
model = nn.Sequential(*block(3, 16), *block(16, 16), nn.MaxPool2d(2), *block(16, 32), nn.Flatten(),
                      nn.Linear(32 * 64, 32), nn.LayerNorm(32), nn.Linear(32, 10))
images, classes = torch.randn(256, 3, 16, 16), torch.randint(10, (256,))
parameters = list(model.parameters())
optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
errors, growth = [], []
for step in range(16):
    rows = torch.randint(256, (32,))
    optimizer.zero_grad()
    F.cross_entropy(model(images[rows] * 1), classes[rows]).backward()
    with exactly():
        exact = torch.autograd.grad(F.cross_entropy(model(images[rows] * 1), classes[rows]), parameters)
    if step > 0:  # the first is not compressed
        errors.append([share(p.grad - g, g) for p, g in zip(parameters, exact) if p.dim() > 1])
        growth.append(sum(p.grad.square().sum().item() for p in parameters) / sum(g.square().sum().item() for g in exact))
    optimizer.step()
print(json.dumps({"errors": errors, "growth": growth}))
"""

ACGC_WAYS = [("AutoQuantZ", "guaranteed"), ("AutoCuSZ", "guaranteed"), ("AutoQuantZ", "expected")]


@pytest.mark.parametrize("codec, mode", ACGC_WAYS)
def test_acgc_keeps_to_what_it_allows_itself(codec, mode, tmp_path):
    """The check of AC-GC's section 5 (Figure 5c): exact gradients beside compressed ones in a few steps. Each weight's relative
    squared error, errors that reached it through norms included, is within e² = 0.5; and |ĝ|² / |g|² within 1 + e²."""
    found, report = told(tmp_path, ACGC, {"policy": "acgc", "acgc": {"codec": codec, "mode": mode, "every_steps": 5}})
    held = "error_bounded_ratio" if codec == "AutoCuSZ" else "fixed_point"
    assert held_by(report, "aten::convolution", held) > 30 and held_by(report, "aten::native_batch_norm", held) > 30
    means = [sum(of_weight) / len(of_weight) for of_weight in zip(*found["errors"])]
    assert 0 < max(means) <= 0.5
    if mode == "guaranteed":
        assert max(map(max, found["errors"])) <= 0.5, "in every step"
    assert sum(found["growth"]) / len(found["growth"]) <= 1.5


COMET = """
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
                      nn.Conv2d(24, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 8, 3, padding=1),
                      nn.Flatten(), nn.Linear(8 * 256, 10))
x, y = torch.randn(16, 3, 16, 16), torch.randint(10, (16,))
named = dict(model.named_parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)  # so that momentum is the gradient itself
for step in range(10):
    optimizer.zero_grad()
    F.cross_entropy(model(x * 1), y).backward()
    if step == 0:
        exact = {name: p.grad.clone() for name, p in named.items()}
    optimizer.step()
convolutions = {name: p.grad - exact[name] for name, p in named.items() if p.dim() == 4}
print(json.dumps({
    "rest": [name for name, p in named.items() if p.dim() != 4 and not torch.equal(p.grad, exact[name])],
    "deviations": [(e.square().mean().sqrt() / (0.01 * exact[n].abs().mean())).item() for n, e in convolutions.items()],
    "within": [(e.abs() <= e.square().mean().sqrt()).float().mean().item() for e in convolutions.values()],
    "bias": [(e.mean() / e.std() * math.sqrt(e.numel())).item() for e in convolutions.values()]}))
"""


def test_comets_errors_are_a_hundredth_of_the_momentum_and_normal(tmp_path):
    settings = {"policy": "comet", "comet": {"every_steps": 8, "momentum_steps": 4}}
    found, report = told(tmp_path, COMET, settings)
    assert held_by(report, "aten::convolution", "error_bounded_ratio") >= 2 * 4
    assert found["rest"] == [], "gradients of biases, norms and linear layers are the same bits: errors don't cross layers"
    deviations, within = found["deviations"], found["within"]
    assert sum(d * d for d in deviations) / len(deviations) == pytest.approx(0.92, abs=0.08), "of the variance asked for"
    assert all(0.85 < d < 1.05 for d in deviations)
    assert all(0.65 < w < 0.74 for w in within), "68 % of a normal distribution, of 1,700 to 5,200 numbers that share errors"
    assert all(abs(b) < 4 for b in found["bias"])
