# SPDX-License-Identifier: Apache-2.0
"""The command, and what a bare LD_PRELOAD does where there is nothing to do or something is wrong."""

import json
import os
import sys

import pytest

import harness

TRAINING = """
import torch
from workloads.models import ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(), torch.randn(8, 3, 64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(2):
    optimizer.zero_grad()
    loss = cross_entropy()(model(x))
    loss.backward()
    optimizer.step()
print(loss.item())
"""

WRONG = '{\n  "version": 1,\n  "policy": "division",\n  "division": { "bits": 99 }\n}\n'


def cinch(*arguments, env: dict[str, str] | None = None) -> harness.Run:
    return harness.run([harness.CINCH, *arguments], harness.plain_environment(env))


def bare(arguments: list, env: dict[str, str]) -> harness.Run:
    """LD_PRELOAD without the command, and without strictness."""
    return harness.run(arguments, harness.plain_environment({"LD_PRELOAD": str(harness.PRELOAD)} | env))


@pytest.fixture
def wrong_policy(tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(WRONG)
    return file


def assert_names_the_mistake(stderr: str, file):
    """One line: file, line, column, the field's path and what was expected."""
    lines = stderr.splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("cinch:")
    assert f"{file}:4:" in lines[0]
    assert "bits" in lines[0] and "99" in lines[0] and "expected" in lines[0]


@pytest.mark.quick
def test_snapshots_are_written_as_other_files_are(tmp_path):
    """hooks/torch/outside/snapshot_file.py, of which the program's Python runs the text."""
    embedded = harness.ROOT / "hooks/torch/outside/snapshot_file.py"
    exec(embedded.read_text(), names := {})

    class Memory:
        content = b"one"

        @classmethod
        def _dump_snapshot(cls, path):
            with open(path, "wb") as file:
                file.write(cls.content)
            if cls.content == b"fails":
                raise RuntimeError("halfway")

    def write(path, content):
        Memory.content = content
        names["write_snapshot"](Memory, str(path))

    (tmp_path / "link").symlink_to("real")
    for content in b"one", b"two":
        write(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == content
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    with pytest.raises(RuntimeError, match="halfway"):
        write(tmp_path / "real", b"fails")
    assert (tmp_path / "real").read_bytes() == b"two"
    write("/dev/null", b"three")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="No such device"):
        write(tmp_path / "fifo", b"nobody reads it")
    assert {file.name for file in tmp_path.iterdir()} == {"link", "real", "fifo"}


class TestRun:
    @pytest.mark.quick
    def test_trains_and_sums_up(self, tmp_path):
        plain = harness.run([sys.executable, "-c", TRAINING], harness.plain_environment())
        file = tmp_path / "report.json"
        done = cinch("run", "--policy", "lossless", "--report", file, "--", sys.executable, "-c", TRAINING)
        assert (done.status, done.stdout) == (0, plain.stdout)
        added = harness.new_lines(done.stderr, plain.stderr)
        assert added and all(line.startswith("cinch:") for line in added)
        summary = "\n".join(added)
        for word in ("less activation memory", "peak RSS", "in Cinch", "2 optimizer steps", "not compressed"):
            assert word.lower() in summary.lower()
        report = json.loads(file.read_text())
        assert report["active"] and report["steps"] == 2

    @pytest.mark.parametrize("status", [0, 1, 7, 255])
    @pytest.mark.quick
    def test_passes_the_exit_status(self, status):
        assert cinch("run", "--", "/bin/sh", "-c", f"exit {status}").status == status

    @pytest.mark.quick
    def test_passes_a_signal(self):
        assert cinch("run", "--", "/bin/sh", "-c", "kill -TERM $$").status == 128 + 15

    @pytest.mark.quick
    def test_program_is_missing(self, tmp_path):
        assert cinch("run", "--", tmp_path / "nothing").status == 127

    def test_says_loudly_that_it_was_not_active(self):
        done = cinch("run", "--", "/bin/true")
        assert done.status == 0
        assert "NOT ACTIVE" in done.stderr

    @pytest.mark.quick
    def test_keeps_an_existing_preload(self):
        done = cinch("run", "--", "/bin/sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
        assert {str(harness.PRELOAD), "libm.so.6"} == set(done.stdout.strip().replace(":", " ").split())

    def test_disabled_is_silent(self):
        done = cinch("run", "--disable", "--", sys.executable, "-c", TRAINING)
        plain = harness.run([sys.executable, "-c", TRAINING], harness.plain_environment())
        assert (done.status, done.stdout) == (0, plain.stdout)
        assert harness.new_lines(done.stderr, plain.stderr) == []

    @pytest.mark.quick
    def test_wrong_policy_does_not_start_the_program(self, tmp_path, wrong_policy):
        started = tmp_path / "started"
        done = cinch("run", "--policy", wrong_policy, "--", "/bin/touch", started)
        assert done.status == 2 and not started.exists()
        assert_names_the_mistake(done.stderr, wrong_policy)

    @pytest.mark.quick
    def test_unknown_preset(self):
        done = cinch("run", "--policy", "divison", "--", "/bin/true")
        assert done.status == 2
        assert "division" in done.stderr


class TestBarePreload:
    @pytest.mark.quick
    def test_inert_without_torch(self):
        done = bare(["/bin/true"], {})
        assert (done.status, done.stdout, done.stderr) == (0, "", "")

    def test_nothing_printed_and_no_report_without_torch(self, tmp_path):
        done = bare([sys.executable, "-c", "print(1)"], {"CINCH_REPORT": str(tmp_path / "r.json")})
        assert (done.status, done.stdout, done.stderr) == (0, "1\n", "")
        assert done.report is None

    @pytest.mark.parametrize("policy", ["division", "no such policy"])
    def test_disabled_is_silent_and_inactive(self, tmp_path, policy):
        env = {"CINCH_DISABLE": "1", "CINCH_POLICY": policy, "CINCH_REPORT": str(tmp_path / "r.json")}
        done = bare([sys.executable, "-c", TRAINING], env)
        plain = harness.run([sys.executable, "-c", TRAINING], harness.plain_environment())
        assert (done.status, done.stdout) == (0, plain.stdout)
        assert harness.new_lines(done.stderr, plain.stderr) == []
        assert done.report is None or not done.report["active"]

    def test_off_computes_the_same(self, tmp_path):
        done = bare([sys.executable, "-c", TRAINING], {"CINCH_POLICY": "off", "CINCH_REPORT": str(tmp_path / "r.json")})
        plain = harness.run([sys.executable, "-c", TRAINING], harness.plain_environment())
        assert (done.status, done.stdout) == (0, plain.stdout)
        assert harness.new_lines(done.stderr, plain.stderr) == []
        assert done.report is not None and not done.report["active"] and done.report["inactive_reason"]

    def test_off_can_be_asked_for_its_report(self, tmp_path):
        program = "import torch, live; print(live.report()['active'])"
        done = bare([sys.executable, "-c", program], {"CINCH_POLICY": "off", "E2E_CORE": str(harness.CORE)})
        assert (done.status, done.stdout) == (0, "False\n")

    def test_wrong_policy_runs_uncompressed(self, tmp_path, wrong_policy):
        env = {"CINCH_POLICY": str(wrong_policy), "CINCH_REPORT": str(tmp_path / "r.json")}
        done = bare([sys.executable, "-c", TRAINING], env)
        plain = harness.run([sys.executable, "-c", TRAINING], harness.plain_environment())
        assert (done.status, done.stdout) == (0, plain.stdout)
        assert_names_the_mistake("\n".join(harness.new_lines(done.stderr, plain.stderr)), wrong_policy)
        assert done.report is None or not done.report["active"]

    def test_wrong_policy_stops_a_strict_program(self, wrong_policy):
        done = bare([sys.executable, "-c", TRAINING], {"CINCH_POLICY": str(wrong_policy), "CINCH_STRICT": "1"})
        assert (done.status, done.stdout) == (2, "")
        assert_names_the_mistake(done.stderr, wrong_policy)

    def test_what_files_hold_commands_no_terminal(self, tmp_path):
        """Neither a policy that is refused nor what an earlier run is said to have learned."""
        evil = "\x1b]52;c;AAAA\x07\x9b2J"
        wrong, learned, good = (tmp_path / name for name in ("wrong.json", "learned.json", "good.json"))
        wrong.write_text(json.dumps({"version": 1, "policy": evil, evil: evil}))
        learned.write_text(json.dumps({"version": 1, "policy": evil, "layers": []}))
        good.write_text(json.dumps({"version": 1, "policy": "comet", "min_bytes": 0, "state_file": str(learned)}))
        for policy in wrong, good:
            lines = bare([sys.executable, "-c", TRAINING], {"CINCH_POLICY": str(policy)}).stderr.split("\n")
            said = [line for line in lines if line.startswith("cinch: ")]
            assert any("]52;c;AAAA" in line for line in said), lines
            assert all(line.isprintable() for line in said), said


class TestOtherCommands:
    def test_doctor_finds_all_well(self):
        done = cinch("doctor", "--python", sys.executable)
        assert done.status == 0, done.stdout + done.stderr
        assert "FAILED" not in done.stdout

    def test_doctor_without_torch(self, tmp_path):
        """A Python whose site-packages are out of reach."""
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -I -S "$@"\n')
        python.chmod(0o755)
        done = cinch("doctor", "--python", python)
        assert done.status != 0
        assert "FAILED" in done.stdout and "torch" in done.stdout

    @pytest.mark.quick
    def test_policies(self, wrong_policy):
        listed = cinch("policy", "list")
        assert listed.status == 0
        for preset in ("division", "lossless", "off"):
            assert preset in listed.stdout
            assert cinch("policy", "check", preset).status == 0
        refused = cinch("policy", "check", wrong_policy)
        assert refused.status == 2
        assert_names_the_mistake(refused.stderr, wrong_policy)

    def test_shown_policy_can_be_used(self, tmp_path):
        file = tmp_path / "mine.json"
        file.write_text(cinch("policy", "show", "division").stdout)
        checked = cinch("policy", "check", file)
        assert (checked.status, checked.stdout.splitlines()[0]) == (0, f"{file}: OK"), "nothing is added to it"
        assert cinch("policy", "explain", file).stdout == cinch("policy", "explain", "division").stdout

    @pytest.mark.quick
    def test_rules_of_a_file_come_before_those_of_the_preset(self, tmp_path):
        file, content = tmp_path / "mine.json", {"version": 1, "policy": "division"}
        content["rules"] = [{"match": {"op": "aten::addmm"}, "codec": {"name": "division", "bits": 8}}]
        file.write_text(json.dumps(content))
        checked = cinch("policy", "check", file)
        preset = json.loads((harness.CONFIGS / "division.json").read_text())["rules"]
        assert checked.stdout.splitlines()[0] == (
            f"{file}: OK; 1 rule of its own, then {len(preset) - 1} of the preset division"
            ', and the preset\'s "others" ("preset_rules": false drops them)'
        ), "the file's rule stands for the preset's of that operator"
        words = cinch("policy", "explain", file).stdout
        own, presets = words.split("  of the preset division:\n")
        assert "aten::addmm: division at 8 bits" in own and "aten::addmm" not in presets
        assert "aten::mm: division at 4 bits" in presets
        file.write_text(json.dumps(content | {"preset_rules": False}))
        assert cinch("policy", "check", file).stdout.splitlines()[0] == f"{file}: OK"
        assert "aten::mm" not in cinch("policy", "explain", file).stdout

    @pytest.mark.quick
    def test_report(self, tmp_path):
        file = tmp_path / "report.json"
        assert cinch("run", "--report", file, "--", sys.executable, "-c", TRAINING).status == 0
        shown = cinch("report", file)
        assert shown.status == 0
        assert "batch_norm" in shown.stdout and "group_quant" in shown.stdout
        file.write_text("{")
        assert cinch("report", file).status == 2

    @pytest.mark.quick
    def test_help_and_version(self):
        assert cinch("--version").stdout.startswith("cinch ")
        help_text = cinch("--help").stdout
        for command in ("run", "doctor", "policy", "report"):
            assert command in help_text
        assert cinch("no such command").status == 2
