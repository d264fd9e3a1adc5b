# SPDX-License-Identifier: Apache-2.0
"""A snapshot of CUDA's allocator that a program leaves without knowing of it, on the fake CUDA runtime."""

import pickle
import subprocess
import sys
import time

import pytest

import fake_device
import harness
from fake_device import fakecuda

pytestmark = fake_device.needed

MB = 2**20
TRAINING = """
import torch
model = torch.nn.Linear(256, 256).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(64, 256, device="cuda")).sum().backward()
    optimizer.step()
"""
RUN_OUT = TRAINING + """
held = []
try:
    while True: held.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError: pass
import os; os._exit(0)  # nothing runs at exit
"""


def train(program: str, folder, policy, snapshot) -> harness.Run:
    env = harness.plain_environment() | harness.preload_environment(folder, policy)
    env |= {"LD_PRELOAD": str(harness.BUILD / "lib/fakecuda/libcinch.so"), "CINCH_SNAPSHOT": str(snapshot)}
    done = harness.run([sys.executable, "-W", "ignore", "-c", program], fakecuda.environment(env, memory=256 * MB))
    assert done.status == 0, done.stderr
    return done


def shown(file) -> tuple[dict, str]:
    """The snapshot, and what torch's own memory_viz makes of it."""
    from torch.cuda import _memory_viz

    snapshot = pickle.loads(file.read_bytes())
    assert "<script" in _memory_viz.trace_plot(snapshot)
    return snapshot, _memory_viz.segsum(snapshot)


@pytest.mark.parametrize("policy", ["off", "lossless"])
@pytest.mark.quick
def test_is_written_at_the_end(tmp_path, policy):
    """Also where nothing is compressed and Cinch is the allocator alone."""
    settings = {"version": 1, "policy": policy, "allocator": {"cuda": True}}
    train(TRAINING, tmp_path, settings, tmp_path / "s-%p.pickle")
    (file,) = tmp_path.glob("s-*.pickle")
    snapshot, summary = shown(file)
    actions = {entry["action"] for entry in snapshot["device_traces"][0]}
    assert {"alloc", "free_completed"} <= actions
    assert snapshot["segments"] and "segments: " in summary
    assert any("<string>" in frame["filename"] for e in snapshot["device_traces"][0] for frame in e.get("frames", []))


def test_is_written_when_memory_runs_out(tmp_path):
    file = tmp_path / "s.pickle"
    train(RUN_OUT, tmp_path, {"version": 1, "policy": "off", "allocator": {"cuda": True}}, file)
    snapshot, _ = shown(file)
    assert "oom" in {entry["action"] for entry in snapshot["device_traces"][0]}
    assert [f.name for f in tmp_path.glob("*.tmp")] == []


UNTIL_ASKED = TRAINING.replace("for _ in range(2):", "import sys, select\nwhile not select.select([sys.stdin], [], [], 0)[0]:")


def test_is_written_when_cinch_ctl_asks(tmp_path):
    env = harness.plain_environment() | harness.preload_environment(tmp_path, "lossless")
    env |= {"LD_PRELOAD": str(harness.BUILD / "lib/fakecuda/libcinch.so"), "CINCH_TELEMETRY_DIR": str(tmp_path)}
    training = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", UNTIL_ASKED], env=fakecuda.environment(env, memory=256 * MB),
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not list(tmp_path.glob("*.control")):
            assert training.poll() is None, training.communicate()[1]
            time.sleep(0.1)

        def ctl(*arguments):
            command = [harness.CINCH, "ctl", str(training.pid), *map(str, arguments)]
            return harness.run(command, harness.plain_environment({"CINCH_TELEMETRY_DIR": str(tmp_path)}))

        file = tmp_path / "s.pickle"
        done = ctl("--snapshot", file)
        assert (done.status, done.stdout) == (0, f"{training.pid}: done: written to {file}\n")
        assert shown(file)[0]["segments"]
        refused = ctl("--snapshot", tmp_path / "no such folder/s.pickle")
        assert refused.status == 1 and "No such file" in refused.stdout
        assert ctl("--empty-cache").status == 0
    finally:
        _, errors = training.communicate("", timeout=60)
    assert (training.returncode, errors) == (0, "")
