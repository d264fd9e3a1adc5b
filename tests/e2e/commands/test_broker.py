# SPDX-License-Identifier: Apache-2.0
"""Two processes on one GPU (the fake runtime's, whose memory they share): when one has no memory left,
`cinch agent` has the other give back what it has cached, though it stands still."""

import json
import signal
import subprocess
import sys

import pytest

import fake_device
import harness
from fake_device import fakecuda
from watched import Agent, runs, wait_for

pytestmark = fake_device.needed

MB = 2**20

# Trains a step for each line it reads, then holds a tensor of so many bytes for a moment.
PROGRAM = """
import json, sys
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to("cuda")
x = torch.randn(64, 64).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for line in sys.stdin:
    step, size = json.loads(line)
    if step:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    try:
        held = torch.empty(size, dtype=torch.uint8, device="cuda")
        said = "held"
    except torch.cuda.OutOfMemoryError as error:
        said = "out of memory"
    held = None
    print(said, flush=True)
"""


# A child of a process that uses a GPU trains on the CPU. (Had the parent run a backward on the GPU, PyTorch would
# refuse the child's.)
FORKED = """
import os, sys
import torch
torch.set_num_threads(1)
held = torch.zeros(2**24, device="cuda")
child = os.fork()
if child == 0:
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    model(torch.randn(64, 64)).square().mean().backward()
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
os.waitpid(child, 0)
"""


class Process:
    """Has 512 MiB with the others."""

    def __init__(self, folder, name, seconds=60, program=PROGRAM):
        self.folder = folder / name
        self.folder.mkdir()
        policy = {"version": 1, "policy": "division", "allocator": {"ask_others_seconds": seconds}}
        env = harness.plain_environment({"CINCH_TELEMETRY_DIR": str(folder)})
        env |= harness.preload_environment(self.folder, policy)
        env["LD_PRELOAD"] = str(harness.BUILD / "lib/fakecuda/libcinch.so")
        env = fakecuda.environment(env, memory=512 * MB, shared=folder / "memory")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def hold(self, size, step=True):
        self.process.stdin.write(json.dumps([step, size]) + "\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline().strip()
        assert said, self.process.communicate()[1]
        return said

    def end(self):
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")
        (report,) = self.folder.glob("report-*.json")
        return json.loads(report.read_text())


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*arguments, **options):
        started.append(Process(tmp_path, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.process.kill()
        process.process.communicate()


@pytest.mark.quick
def test_the_other_gives_back_what_it_has_cached(start, tmp_path):
    giver, asker = start("giver"), start("asker")
    assert giver.hold(400 * MB) == "held"
    # Without an agent nothing changes.
    assert asker.hold(400 * MB) == "out of memory"
    with Agent(tmp_path, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
        # The giver waits for its user, and comes to no step.
        assert asker.hold(400 * MB) == "held"
        # Both have what they need, by turns, and train on.
        assert giver.hold(400 * MB) == "held"
        assert asker.hold(400 * MB) == "held"
        # What nobody could give is not waited for.
        assert asker.hold(600 * MB) == "out of memory"
        wait_for(lambda: max(v for _, v in agent.metrics()["cinch_given_by_others_bytes"]) >= 2 * 390 * MB)
        assert agent.end() == (0, "")
    given = asker.end()
    assert given["given_by_others_bytes"] >= 2 * 390 * MB
    assert any("given back by other processes" in event["detail"] for event in given["events"])
    giver.end()
    assert not list(tmp_path.glob("cinch-*"))


def test_before_the_first_backward(start, tmp_path):
    """Most programs that run out do so in their first forward."""
    giver = start("giver")
    assert giver.hold(400 * MB) == "held"
    with Agent(tmp_path, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0"):
        asker = start("asker")
        assert asker.hold(400 * MB, step=False) == "held"
    giver.end()


def test_nobody_waits_for_ever(start, tmp_path):
    giver, asker = start("giver"), start("asker", seconds=0.3)
    assert giver.hold(400 * MB) == "held"
    with Agent(tmp_path, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
        agent.process.send_signal(signal.SIGSTOP)
        assert asker.hold(400 * MB) == "out of memory"
        agent.process.kill()
    giver.process.kill()
    giver.process.communicate()
    assert asker.hold(400 * MB) == "held", "what a killed process had is free"
    off = start("off", seconds=0)
    assert off.hold(400 * MB) == "out of memory"


def test_a_forked_child_has_nothing_to_give(start, tmp_path):
    """CUDA's memory stays the parent's."""
    process = start("forking", program=FORKED)
    child = int(process.process.stdout.readline())
    (run,) = runs(tmp_path)
    assert run["pid"] == child
    assert not any(device["device"].startswith("cuda") for device in run["devices"])
    _, errors = process.process.communicate()
    assert (process.process.returncode, errors) == (0, "")
