# SPDX-License-Identifier: Apache-2.0
"""cinch advise policy: the bytes and the gradients' errors that it predicts are those of a training, and the noise that
it measures is the noise."""

import argparse
import json
import sys

import pytest

import fake_device
import harness

BENCH = harness.HERE.parent / "bench"

# The weights stay, and so does the batch, unless there is "noise". Keeps each step's gradients: their errors and their
# noise are computed here in another way than Cinch's.
TRAINING = """
import json, sys
import torch
from workloads.models import Block, ConvNet, cross_entropy
output, steps, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.manual_seed(0)
torch.set_num_threads(1)
model, x = ConvNet(dropout=0), torch.randn(8, 3, 48, 48)
blocks, y = torch.nn.Sequential(Block(dropout=0), Block(dropout=0)), torch.randn(8, 32, 64)
parameters = [*model.parameters(), *blocks.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.001 if kind == "training" else 0.0)
gradients = []
for step in range(steps):
    if kind == "noise":
        x, y = torch.randn_like(x), torch.randn_like(y)
    optimizer.zero_grad()
    (cross_entropy()(model(x)) + blocks(y).square().mean()).backward()
    optimizer.step()
    gradients.append(torch.cat([p.grad.flatten().clone() for p in parameters]))
torch.save({"gradients": torch.stack(gradients), "weights": torch.cat([p.detach().flatten() for p in parameters])}, output)
"""

ALL = ["lossless", "default", "blpa"]
UNGUARDED = {"version": 1, "raw_window": 0, "guard": {"every_steps": 0}}
WARM_UP, STEPS = 6, 8


def advise(*arguments, steps=STEPS, warm_up=WARM_UP) -> harness.Run:
    command = [harness.CINCH, "advise", "policy", "--warm-up", warm_up, "--steps", steps, *arguments]
    return harness.run(command, harness.plain_environment({"OMP_NUM_THREADS": "1"}))


def advised(*arguments, **more) -> dict:
    done = advise("--json", *arguments, **more)
    assert done.status == 0, done.stderr
    advice = json.loads(done.stdout)
    return advice | {"by_policy": {row["policy"]: row for row in advice["policies"]}}


def training(output, steps=WARM_UP + STEPS, kind="draws") -> list:
    return ["--", sys.executable, "-c", TRAINING, output, steps, kind]


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    """Of policies without a guard, while every step sees the same batch."""
    folder = tmp_path_factory.mktemp("fixed")
    files = {}
    for name in ALL:
        files[name] = folder / f"{name}.json"
        files[name].write_text(json.dumps(json.loads((harness.CONFIGS / f"{name}.json").read_text()) | UNGUARDED))
    found = advised("--policies", ",".join(map(str, files.values())), *training(folder / "none.pt", 1000))
    rows = {name: found["by_policy"][str(file)] for name, file in files.items()}
    exact = draws(folder / "plain", None)
    return rows, exact, {name: draws(folder / f"run_{name}", str(file)) for name, file in files.items()}


def draws(folder, policy) -> tuple:
    import torch

    run = harness.run_python(
        ["-c", TRAINING, folder / "gradients.pt", str(WARM_UP + STEPS), "draws"], folder, policy, {"OMP_NUM_THREADS": "1"}
    )
    return torch.load(folder / "gradients.pt")["gradients"][WARM_UP:].double(), run.report


@pytest.mark.quick
def test_predicts_the_errors_of_the_gradients(fixed):
    rows, (exact, _), runs = fixed
    assert rows["lossless"]["gradient_error"] == rows["lossless"]["error_by_weight"] == 0
    for name in ("default", "blpa"):
        measured = (runs[name][0] - exact).square().sum(1).mean() / exact[0].square().sum()
        assert measured > 1e-4
        assert rows[name]["gradient_error"] == pytest.approx(measured.item(), rel=0.5)


@pytest.mark.quick
def test_predicts_the_bytes_at_the_peak(fixed):
    rows, _, runs = fixed
    for name in ALL:
        report = runs[name][1]
        assert rows[name]["raw_bytes"] == report["raw_bytes_at_peak"]
        assert rows[name]["ratio"] == pytest.approx(report["ratio"], rel=0.05)
        assert rows[name]["relative_time"] > 1
        assert rows[name]["untraced_gradients"] == 0 < rows[name]["gradients"]


def test_measures_the_noise_of_the_gradients(tmp_path):
    """Of a program that ends with its last measured step, and so writes what it saw itself."""
    import torch

    found = advised("--policies", "lossless", *training(tmp_path / "seen.pt", kind="noise"))
    g = torch.load(tmp_path / "seen.pt")["gradients"][-(STEPS // 2) :].double()
    noise = (g[1:] - g[:-1]).square().sum() / g[1:].square().sum() / 2
    assert found["gradient_noise"] == pytest.approx(noise.item(), rel=0.01)
    assert found["advice"] == "lossless"


@pytest.mark.quick
def test_looks_change_nothing_that_the_program_computes(tmp_path):
    import torch

    for name, policy in (("plain", None), ("looked_at", "lossless")):
        extra = {"OMP_NUM_THREADS": "1", "CINCH_APPRAISE": "2,2,4"}
        harness.run_python(["-c", TRAINING, tmp_path / name, "12", "training"], tmp_path / f"{name}.run", policy, extra)
    assert torch.load(tmp_path / "plain")["weights"].equal(torch.load(tmp_path / "looked_at")["weights"])


@pytest.mark.quick
def test_advises_in_words():
    done = advise("--policies", "lossless,default", *training("/dev/null", 1000, "noise"))
    assert done.status == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("policies in 8 steps of this program; noise of its gradients: ")
    assert [line.split()[0] for line in lines[1:4]] == ["policy", "lossless", "default"]
    assert lines[-1].startswith("advice: --policy ") and "frees " in lines[-1]


OF_PYTHON = """
import torch
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x
    @staticmethod
    def backward(ctx, g):
        return 2 * g
torch.manual_seed(0)
first, second = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.0)
while True:
    x = Twice.apply(torch.nn.functional.gelu(first(torch.randn(256, 512))))
    optimizer.zero_grad()
    second(x).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.quick
def test_says_of_which_gradients_it_knows_a_part_only():
    found = advised("--policies", "lossless,default", "--", sys.executable, "-c", OF_PYTHON)
    row = found["by_policy"]["default"]
    assert row["untraced_gradients"] * 2 == row["gradients"]
    assert row["gradient_error"] > 0
    assert found["by_policy"]["lossless"]["untraced_gradients"] == 0, "there is no error, whatever can be seen"
    assert found["advice"] == "lossless"
    words = advise("--policies", "default", "--", sys.executable, "-c", OF_PYTHON).stdout
    assert "default: of 50 % of the gradients only a part of the error is known" in words
    assert "advice: none but --policy lossless" in words


CHECKPOINT = "torch.utils.checkpoint.checkpoint(second, x, use_reentrant=True)"


def test_a_checkpoint_hides_errors():
    """Its own backward begins with gradients that already have an error."""
    program = OF_PYTHON.replace("Twice.apply(torch.nn.functional.gelu(first(", "torch.nn.functional.gelu(first(")
    program = program.replace("(256, 512))))", "(256, 512)))").replace("import torch", "import torch.utils.checkpoint", 1)
    program = program.replace("second(x).square()", f"torch.nn.functional.gelu({CHECKPOINT}).square()")
    row = advised("--policies", "default", "--", sys.executable, "-c", program)["by_policy"]["default"]
    assert row["untraced_gradients"] == row["gradients"]


@pytest.mark.quick
def test_a_program_that_fails():
    done = advise("--policies", "default", "--", sys.executable, "-c", "import torch, sys; sys.exit(3)")
    assert done.status == 3 and done.stdout == ""
    assert "cinch: no advice: under default: the program ended with status 3 before its step 14 was over" in done.stderr


@pytest.mark.quick
def test_too_short_a_program(tmp_path):
    done = advise("--policies", "default", *training(tmp_path / "g.pt", 9))
    assert done.status == 1
    assert "the program ended before its step 14 was over; --warm-up and --steps say how many" in done.stderr


def test_a_program_that_saves_nothing():
    done = advise("--policies", "default", "--", sys.executable, "-c", "import torch; torch.randn(8) + 1")
    assert done.status == 1
    assert "no advice: under default: the program saved nothing for a backward that Cinch could hold" in done.stderr


@pytest.mark.quick
def test_advice_needs_a_program_and_policies_that_exist():
    assert "found no program to run" in advise().stderr
    wrong = advise("--policies", "bugdet", *training("/dev/null"))
    assert wrong.status == 2 and 'did you mean "budget"?' in wrong.stderr


ON_DEVICE = """
import sys
import torch
from torch import nn
torch.backends.cudnn.enabled = False
torch.set_num_threads(1)
torch.manual_seed(0)
device = sys.argv[1]
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256), nn.Linear(256, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
x, y = torch.randn(64, 256).to(device), (torch.arange(64) % 8).to(device)
for step in range(12):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@fake_device.needed
def test_errors_on_a_device_are_those_on_the_host(tmp_path):
    policy = {"version": 1, "policy": "division", "guard": {"every_steps": 0}, "raw_window": 0}
    rows = {}
    for device in ("cpu", "cuda"):
        run = fake_device.start(["-c", ON_DEVICE, device], tmp_path / device, device, policy, extra={"CINCH_APPRAISE": "2,2,8"})
        rows[device] = run.report["appraisal"][0]
        assert rows[device]["measured"] and rows[device]["untraced_gradients"] == 0
    assert rows["cuda"]["gradient_error"] == pytest.approx(rows["cpu"]["gradient_error"], rel=0.1)
    assert rows["cpu"]["gradient_error"] > 1e-4


@pytest.mark.parametrize("model", ["cnn", "resnet18", "vit", "gpt"])
def test_predicts_what_gradient_variance_measures(model, tmp_path, monkeypatch):
    """At the same weights, on the same batch: those that the benchmark freezes."""
    monkeypatch.syspath_prepend(str(BENCH))
    import gradient_variance

    bench = gradient_variance.Bench(argparse.Namespace(build=harness.BUILD, model=model), tmp_path)
    exact = bench.run("plain", None, 2, 0, 40)
    measured, files = {}, {}
    for name in ("default", "division"):
        policy = gradient_variance.preset(name)
        files[name] = tmp_path / f"appraised_{name}.json"
        files[name].write_text(json.dumps(policy))
        measured[name] = gradient_variance.measured(bench.run(name, policy, 14, 8), exact)
    command = [harness.CINCH, "advise", "policy", "--json", "--policies", ",".join(map(str, files.values())), "--warm-up", "8"]
    program = [sys.executable, "-c", gradient_variance.CHILD, model, tmp_path / "state.pt", "/dev/null", "1000", "1000", "0"]
    environment = harness.plain_environment({"PYTHONPATH": str(BENCH), "OMP_NUM_THREADS": "1"})
    done = harness.run([*command, "--", *program], environment)
    assert done.status == 0, done.stderr
    rows = {row["policy"]: row for row in json.loads(done.stdout)["policies"]}
    figures = {"gradient_error": "error", "error_by_weight": "by_weight", "ratio": "ratio"}
    for name, file in files.items():
        row, expected = rows[str(file)], measured[name]
        print(model, name, {key: (row[key], expected[of]) for key, of in figures.items()})
        for key, of in figures.items():
            assert row[key] == pytest.approx(expected[of], rel=0.05 if key == "ratio" else 0.2)
