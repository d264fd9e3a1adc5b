# SPDX-License-Identifier: Apache-2.0
"""`cinch ctl`: a program that trains does otherwise from its next step on, or says why not."""

import json
import subprocess
import sys

import pytest

import harness

# Trains a step for each line that it reads; answers with what the stash held when the forward ended,
# and the loss.
PROGRAM = """
import json, sys
import torch
import live
from workloads.models import ConvNet, cross_entropy
torch.set_num_threads(1)
torch.manual_seed(0)
model, x = ConvNet(), torch.randn(8, 3, 64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
kept = None
for line in sys.stdin:
    optimizer.zero_grad()
    loss = cross_entropy()(model(x))
    held = live.stash_bytes()
    loss.backward(retain_graph=line == "keep\\n")
    kept = loss if line == "keep\\n" else None
    optimizer.step()
    print(json.dumps([held, loss.item()]), flush=True)
with open(sys.argv[1], "w") as file:
    json.dump(live.report(), file)
"""


# What is held is the same in each step: without the guard, which keeps exact values now and then, and without what the
# preset holds losslessly, in sizes that depend on the data.
DIVISION = {"version": 1, "policy": "division", "preset_rules": False, "guard": {"every_steps": 0}}


class Training:
    def __init__(self, folder, policy=DIVISION):
        self.folder, self.report = folder, folder / "report.json"
        extra = harness.preload_environment(folder, policy) | {"CINCH_TELEMETRY_DIR": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, self.report], env=harness.plain_environment(extra),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.losses = []
        self.step()

    def step(self, how="") -> tuple[int, float]:
        """Bytes held, loss."""
        self.process.stdin.write(f"{how}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        held, loss = json.loads(line)
        self.losses.append(loss)
        return held, loss

    def ctl(self, *arguments, step="") -> tuple[int, str]:
        """Trains on until `cinch ctl` ends: exit status, and what it says of this process."""
        asking = subprocess.Popen(
            [harness.CINCH, "ctl", str(self.process.pid), *map(str, arguments)], env=environment(self.folder),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        while asking.poll() is None:
            self.step(step)
        return asking.returncode, asking.communicate()[0].removeprefix(f"{self.process.pid}: ").strip()

    def end(self) -> dict:
        """Its report."""
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")
        return json.loads(self.report.read_text())


def environment(folder):
    return harness.plain_environment({"CINCH_TELEMETRY_DIR": str(folder)})


@pytest.fixture
def training(tmp_path):
    started = Training(tmp_path)
    yield started
    started.process.kill()
    started.process.communicate()


@pytest.mark.quick
def test_another_policy(training, tmp_path):
    division, _ = training.step()
    first, mine = tmp_path / "policy.json", tmp_path / "mine.json"
    assert training.ctl("--policy", "lossless") == (0, f"done: {first} -> lossless")
    lossless, _ = training.step()
    assert lossless > division
    mine.write_text(json.dumps({"version": 1, "policy": "division", "min_bytes": 2**40}))
    assert training.ctl("--policy", mine) == (0, f"done: lossless -> {mine}")
    assert training.step()[0] == 0
    watched = json.loads(harness.run([harness.CINCH, "watch", "--json"], environment(tmp_path)).stdout)
    assert [run["policy"] for run in watched["runs"]] == [str(mine)]
    assert training.ctl("--policy", first)[0] == 0
    assert training.step()[0] == division
    budget = "budget of 67108864 bytes"
    assert training.ctl("--budget", "64MiB") == (0, f"done: {first} -> {budget}")
    training.step()
    report = training.end()
    assert report["policy"] == budget
    changes = [event["detail"] for event in report["events"] if event["kind"] == "policy"]
    assert changes == [f"{first} -> lossless", f"lossless -> {mine}", f"{mine} -> {first}", f"{first} -> {budget}"]
    # Both of its segments went with it.
    assert not list(tmp_path.glob("cinch-*"))
    gone = harness.run([harness.CINCH, "ctl", str(training.process.pid), "--pause"], environment(tmp_path))
    assert gone.status == 1 and str(training.process.pid) in gone.stderr


def test_no_step_is_lost_or_done_twice(tmp_path):
    """To lossless, of more: losses are those of a run that was never asked anything."""
    trainings = []
    for name in ("asked", "plain"):
        (tmp_path / name).mkdir()
        trainings.append(Training(tmp_path / name, {"version": 1, "policy": "lossless", "min_bytes": 2**19}))
    # The weights of a first step's norms are new and prove nothing; from the third on the norms are derived.
    trainings[0].step()
    before, _ = trainings[0].step()
    assert trainings[0].ctl("--policy", "lossless")[0] == 0
    assert trainings[0].step()[0] > before
    while len(trainings[1].losses) < len(trainings[0].losses):
        trainings[1].step()
    assert trainings[0].losses == trainings[1].losses
    for training in trainings:
        training.end()


def test_pause_and_memory(training):
    before, _ = training.step()
    assert training.ctl("--pause")[0] == 0
    training.step()
    assert training.step()[0] == 0
    assert training.ctl("--resume") == (0, "done: goes on")
    training.step()
    assert training.step()[0] == before
    status, words = training.ctl("--empty-cache")
    assert status == 0 and words.startswith("done: gave back ")
    assert training.step()[0] == before
    assert "while Cinch was paused" in {row["reason"] for row in training.end()["passed_through"]}


@pytest.mark.quick
def test_what_cannot_be_done_is_refused(training, tmp_path):
    status, said = training.ctl("--policy", "off")
    assert status == 1 and said.startswith("refused: ") and "use --pause" in said
    side = tmp_path / "side.json"
    side.write_text(json.dumps({"version": 1, "policy": "division", "stream": "side"}))
    status, said = training.ctl("--policy", side)
    assert status == 1 and "refused: found the stream side, expected current" in said
    assert training.ctl("--snapshot", tmp_path / "s.pickle") == (1, "refused: this process does not use CUDA")
    # A wrong policy asks nobody.
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"version": 1,\n "polcy": "division"}')
    done = harness.run([harness.CINCH, "ctl", str(training.process.pid), "--policy", str(wrong)], environment(tmp_path))
    assert done.status == 2 and f"{wrong}:2:" in done.stderr and "polcy" in done.stderr
    # A program that stands still.
    done = harness.run(
        [harness.CINCH, "ctl", str(training.process.pid), "--pause", "--timeout", "0", "--json"], environment(tmp_path)
    )
    (answer,) = json.loads(done.stdout)["answers"]
    assert done.status == 1 and answer["outcome"] == "withdrawn" and answer["pid"] == training.process.pid
    assert training.step()[0] > 0
    assert training.end()["policy"] == str(tmp_path / "policy.json")


def test_graphs_that_are_still_alive_come_first(training):
    training.step("keep")
    status, said = training.ctl("--policy", "lossless", "--timeout", "0.5", step="keep")
    assert status == 1 and said.startswith("waiting: ")
    training.step()
    training.step()
    assert training.end()["policy"] == "lossless"
