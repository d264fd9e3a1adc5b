# SPDX-License-Identifier: Apache-2.0
"""`cinch watch` beside real training: what it shows, when it comes and goes."""

import json
import shutil
import subprocess
import sys
import time

import pytest

import harness

PROGRAM = """
import os, sys, time
import torch
from workloads.models import ConvNet, cross_entropy

def train(steps):
    torch.manual_seed(0)
    model, x = ConvNet(), torch.randn(8, 3, 64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy()(model(x)).backward()
        optimizer.step()

folder, fork = sys.argv[1], len(sys.argv) > 2
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
train(4)
child = os.fork() if fork else 1
if child == 0:
    train(2)
    open(f"{folder}/child-{os.getpid()}", "w").close()
open(f"{folder}/ready-{os.getpid()}", "w").close()
# Lives until the test takes the file away; and never for good.
for _ in range(6000):
    if not os.path.exists(f"{folder}/hold"):
        break
    time.sleep(0.05)
if child == 0:
    os._exit(0)
if fork:
    os.waitpid(child, 0)
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
"""

PATIENCE = 60  # seconds; nothing here is timed


def watch(folder, *arguments, **environment):
    env = harness.plain_environment({"CINCH_TELEMETRY_DIR": str(folder)} | environment)
    return harness.run([harness.CINCH, "watch", *arguments], env)


def runs(folder):
    done = watch(folder, "--json")
    assert (done.status, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["version"] == 1
    return document["runs"]


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


class Training:
    """PROGRAM, held after its last step until `let_go`."""

    def __init__(self, folder, launcher, *arguments, processes=1, **environment):
        self.folder = folder / "segments"
        self.folder.mkdir()
        program = folder / "program.py"
        program.write_text(PROGRAM)
        self.hold = folder / "hold"
        self.hold.touch()
        env = harness.plain_environment(
            {"CINCH_TELEMETRY_DIR": str(self.folder), "OMP_NUM_THREADS": "1"} | environment
        )
        self.process = subprocess.Popen(
            [*map(str, launcher), str(program), str(folder), *arguments], env=env,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        try:
            wait_for(lambda: self.process.poll() is not None or len(list(folder.glob("ready-*"))) >= processes)
            assert self.process.poll() is None, self.process.communicate()[0]
        except BaseException:
            self.kill()
            raise

    def let_go(self):
        """Its output, when it has ended well."""
        self.hold.unlink()
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, output
        return output

    def kill_if_running(self):
        if self.process.poll() is None:
            self.kill()

    def kill(self):
        """What the launcher has started ends by itself as soon as nothing holds it."""
        self.hold.unlink(missing_ok=True)
        self.process.terminate()
        self.process.communicate()


def cinch_run(*command):
    return [harness.CINCH, "run", "--quiet", "--", *command]


@pytest.mark.quick
def test_a_run_and_its_forked_child(tmp_path):
    training = Training(tmp_path, cinch_run(sys.executable), "fork", processes=2)
    try:
        found = {run["pid"]: run for run in runs(training.folder)}
        assert len(found) == 2
        (child_pid,) = [int(path.name.split("-")[1]) for path in tmp_path.glob("child-*")]
        child = found.pop(child_pid)
        ((parent_pid, parent),) = found.items()
        assert (parent["state"], parent["rank"]) == ("running", None)
        assert parent["policy"] == "default" and "program.py" in parent["command"]
        live = parent["live"]
        # The last boundary is where the fourth step's backward began.
        assert (live["steps"], live["boundaries"]) == (3, 4)
        assert live["raw_bytes_at_peak"] > live["stored_bytes_at_peak"] > 0 and live["ratio"] > 2
        assert live["seconds_in_cinch"] > 0 and live["step_seconds"] > 0
        assert [point["step"] for point in parent["history"]] == [1, 2, 3]
        assert parent["peak_rss_bytes"] >= parent["rss_bytes"] > 0
        assert [device["device"] for device in parent["devices"]] == ["cpu"]
        assert parent["devices"][0]["peak_allocated_bytes"] > 0
        ops = {(op["op"], op["codec"]) for op in parent["ops"]}
        assert any(op == "aten::convolution" and "group_quant" in codec for op, codec in ops), ops
        # The child's figures are its own.
        assert child["live"]["boundaries"] == 2

        table = watch(training.folder, "--once").stdout
        assert str(parent_pid) in table and str(child_pid) in table and "ratio" in table
        one = watch(training.folder, str(parent_pid)).stdout
        assert "by operator" in one and "by codec" in one and "convolution" in one and str(child_pid) not in one
        assert "\033" not in table + one
        nobody = watch(training.folder, "--once", "999999999")
        assert nobody.status == 1 and "999999999" in nobody.stderr
        training.let_go()
    finally:
        training.kill_if_running()
    # The parent took its segment away; the child, which ended through os._exit, is known to be gone.
    left = runs(training.folder)
    assert [(run["pid"], run["state"]) for run in left] == [(child_pid, "gone")]


@pytest.fixture
def tmux(tmp_path):
    """A tmux server of its own; gives a function that runs its commands."""
    program = shutil.which("tmux")
    assert program, "tmux is not installed: scripts/setup"
    socket = tmp_path / "tmux"

    def command(*arguments):
        env = harness.plain_environment({"LC_ALL": "C.UTF-8", "CINCH_TELEMETRY_DIR": str(tmp_path / "segments")})
        done = subprocess.run([program, "-S", socket, "-f", "/dev/null", *arguments], env=env, capture_output=True, text=True)
        return done.stdout

    yield command
    command("kill-server")


@pytest.mark.quick
def test_two_ranks_of_torchrun_on_a_terminal(tmp_path, tmux):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    training = Training(tmp_path, cinch_run(*torchrun), processes=2)
    try:
        found = runs(training.folder)
        # The launcher itself trains nothing and is not there.
        assert [run["rank"] for run in found] == [0, 1]
        assert found[0]["job"] == found[1]["job"] and found[0]["world_size"] == 2

        tmux("new-session", "-d", "-x", "120", "-y", "30", f"{harness.CINCH} watch --interval 0.2; echo ended with $?; cat")
        screen = lambda: tmux("capture-pane", "-p")
        wait_for(lambda: "2 ranks here of 2" in screen())
        shown = screen()
        assert shown.startswith("cinch watch: 2 processes") and "RATIO" in shown
        tmux("send-keys", "Down", "Enter")
        wait_for(lambda: f"process {found[1]['pid']}" in screen())
        assert "by operator" in screen()
        tmux("resize-window", "-x", "60", "-y", "12")
        wait_for(lambda: len(screen().rstrip("\n").splitlines()) == 12 and "esc: back" in screen())
        tmux("send-keys", "Escape")
        wait_for(lambda: "RATIO" in screen())
        training.let_go()
        wait_for(lambda: "no program of yours" in screen())
        tmux("send-keys", "q")
        wait_for(lambda: "ended with 0" in screen())
    finally:
        training.kill_if_running()
    assert runs(training.folder) == []
    assert list(training.folder.iterdir()) == []


@pytest.mark.parametrize("how", ["option", "directory"])
def test_without_a_segment_training_goes_on_silently(tmp_path, how):
    launcher = [harness.CINCH, "run", "--quiet", *(["--no-telemetry"] if how == "option" else []), "--", sys.executable]
    training = Training(tmp_path, launcher, **({"CINCH_TELEMETRY_DIR": "/nowhere"} if how == "directory" else {}))
    try:
        assert runs(training.folder) == []
        # The guard may have its say about this little training.
        assert [line for line in training.let_go().splitlines() if not line.startswith("cinch: guard: ")] == []
    finally:
        training.kill_if_running()
