# SPDX-License-Identifier: Apache-2.0
"""cinch run --dry-run and cinch advise: what policies would hold is what they hold, and the program
doesn't notice."""

import json
import os
import pty
import subprocess
import sys

import pytest

import harness

TRAINING = """
import itertools, sys
import torch
from workloads.models import Block, ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(dropout=0), torch.randn(8, 3, 48, 48)
blocks, y = torch.nn.Sequential(Block(dropout=0), Block(dropout=0)), torch.randn(8, 32, 64)
optimizer = torch.optim.AdamW([*model.parameters(), *blocks.parameters()], lr=0.001)
for step in range(int(sys.argv[1])) if len(sys.argv) > 1 else itertools.count():
    optimizer.zero_grad()
    loss = cross_entropy()(model(x)) + blocks(y).square().mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
print(sum(p.double().sum().item() for p in model.parameters()))
"""


def cinch(*arguments) -> harness.Run:
    return harness.run([harness.CINCH, *arguments], harness.plain_environment({"OMP_NUM_THREADS": "1"}))


def training(*arguments) -> list:
    return ["--", sys.executable, "-c", TRAINING, *map(str, arguments)]


POLICIES = ["division", "lossless", "actnn", "acgc", "comet", "budget", "blpa"]


@pytest.fixture(scope="module")
def dry():
    """Of a program that would never end."""
    return cinch("run", "--dry-run", "--json", "--policies", ",".join(POLICIES), *training())


def by_policy(run: harness.Run) -> dict:
    return {row["policy"]: row for row in json.loads(run.stdout)["policies"]}


@pytest.mark.quick
def test_measures_every_policy_and_ends_the_program(dry):
    assert dry.status == 0, dry.stderr
    rows = by_policy(dry)
    assert list(rows) == POLICIES
    assert all(row["measured"] and row["raw_bytes"] == rows["division"]["raw_bytes"] for row in rows.values())
    assert "0 " in dry.stderr, "the program's own output goes to stderr"
    assert "NOT ACTIVE" not in dry.stderr


def test_a_line_on_a_terminal_says_how_far_it_is():
    """Beside what the program prints, which keeps its terminal; the result, in a pipe, is as ever."""
    master, slave = pty.openpty()
    env = harness.plain_environment({"OMP_NUM_THREADS": "1", "TERM": "xterm"})
    command = [harness.CINCH, "run", "--dry-run", "--policies", "division", "--json", *training()]
    asked = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    seen = b""
    while True:
        try:
            seen += os.read(master, 4096)
        except OSError:  # nobody has the other end any more
            break
    result, _ = asked.communicate()
    os.close(master)
    assert asked.returncode == 0
    assert by_policy(harness.Run(0, result, "", None))["division"]["measured"]
    assert b"cinch: dry run: the program has come to no backward yet (" in seen
    assert b"\r\x1b[K0 " in seen, "the program's own line, in the place of ours"
    last = seen.rindex(b"cinch: dry run:")
    assert b"\r\x1b[K" in seen[last:], "our line is gone; the program may have been ended within one of its own"


def test_what_they_would_hold_is_what_they_hold(dry, tmp_path):
    """From the step on in which `lossless` derives the norms too: the first one's weights are new, the second one
    proves them."""
    rows = by_policy(dry)
    for name in ("division", "lossless"):
        run = harness.run_python(["-c", TRAINING, 4], tmp_path / name, name, {"OMP_NUM_THREADS": "1"})
        assert rows[name]["raw_bytes"] == pytest.approx(run.report["raw_bytes_at_peak"], rel=0.001)
        assert rows[name]["ratio"] == pytest.approx(run.report["ratio"], rel=0.01)


@pytest.mark.quick
def test_policies_that_adapt_have_learned(dry):
    rows = by_policy(dry)
    codecs = {name: {op["codec"] for op in row["ops"] if op["op"] == "aten::convolution"} for name, row in rows.items()}
    assert any(codec.startswith("group_quant mixed") for codec in codecs["actnn"])
    assert any(codec.startswith("fixed_point") for codec in codecs["acgc"])
    assert any(codec.startswith("error_bounded_ratio") for codec in codecs["comet"])
    assert 9.9 < rows["budget"]["ratio"] < 13


def test_errors_are_those_of_the_values_and_of_the_gradients(dry):
    rows = by_policy(dry)
    assert rows["lossless"]["worst_relative_error"] == rows["lossless"]["worst_gradient_error"] == 0
    four_bits, two_bits = (
        max(op["worst_gradient_error"] for op in rows[name]["ops"] if op["op"] == "aten::native_batch_norm")
        for name in ("acgc", "actnn")
    )
    assert 0 < four_bits < two_bits
    assert 0.05 < rows["division"]["worst_relative_error"] < 1
    assert rows["division"]["encode_seconds"] > 0 < rows["division"]["decode_seconds"]


def test_nothing_reaches_a_program_that_goes_on():
    plain = harness.run([sys.executable, "-c", TRAINING, "5"], harness.plain_environment({"OMP_NUM_THREADS": "1"}))
    done = cinch("run", "--dry-run", "--keep-running", "--policies", "division,budget", *training(5))
    assert done.status == 0
    assert [line for line in done.stderr.splitlines() if line in plain.stdout.splitlines()] == plain.stdout.splitlines()
    assert "division" in done.stdout and "aten::convolution" in done.stdout and "gradient error" in done.stdout


@pytest.mark.quick
def test_no_files_stay(tmp_path):
    """Where telemetry and temporary files go by default, other programs' come and go, so both are moved."""
    folders = {"CINCH_TELEMETRY_DIR": tmp_path / "shared", "TMPDIR": tmp_path / "temporary"}
    for folder in folders.values():
        folder.mkdir()
    env = harness.plain_environment({"OMP_NUM_THREADS": "1"} | {name: str(folder) for name, folder in folders.items()})
    done = harness.run([harness.CINCH, "run", "--dry-run", "--policies", "division", *training()], env)
    assert done.status == 0, done.stderr
    assert not list(tmp_path.glob("*/cinch*"))


def test_too_short_a_program():
    done = cinch("run", "--dry-run", "--policies", "division", *training(1))
    assert done.status == 1
    assert "cinch: no dry run: the program ended before its second step" in done.stderr


@pytest.mark.quick
def test_a_wrong_policy_starts_nothing(tmp_path):
    done = cinch("run", "--dry-run", "--policies", "division,bugdet", *training())
    assert done.status == 2 and 'did you mean "budget"?' in done.stderr


@pytest.mark.quick
def test_advice_is_the_largest_power_of_two_that_fits():
    done = cinch("advise", "batch-size", "--memory", "2GiB", "--policies", "division", "--json", *training())
    assert done.status == 0, done.stderr
    advice = json.loads(done.stdout)
    assert (advice["batch"], advice["batch_guessed"], advice["memory_bytes"]) == (8, True, 2**31)
    off, division = advice["policies"]
    assert off["policy"] == "off" and division["policy"] == "division"
    for row in (off, division):
        size = row["batch_size"]
        assert size & (size - 1) == 0 and size > 0
        needs = lambda n: row["fixed_bytes"] + n * row["bytes_per_sample"]
        assert needs(size) <= 0.95 * 2**31 < needs(2 * size)
    assert division["batch_size"] >= off["batch_size"]
    assert division["bytes_per_sample"] < off["bytes_per_sample"]
    assert division["fixed_bytes"] == off["fixed_bytes"]


def test_advice_needs_a_program():
    done = cinch("advise", "batch-size", "--memory", "1GiB")
    assert done.status == 2 and "found no program to run" in done.stderr
