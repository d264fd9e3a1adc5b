# SPDX-License-Identifier: Apache-2.0
"""`cinch watch` beside real training: what it shows, when it comes and goes."""

import shutil
import subprocess
import sys

import pytest

import harness
from watched import Training, cinch_run, runs, wait_for, watch

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
