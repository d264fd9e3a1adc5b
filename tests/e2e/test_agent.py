# SPDX-License-Identifier: Apache-2.0
"""`cinch agent` beside real training: what Prometheus reads from it, and what is left when the run has ended."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import harness
from test_watch import PATIENCE, Training, cinch_run, wait_for


class Agent:
    def __init__(self, segments, history, *arguments, **environment):
        env = harness.plain_environment({"CINCH_TELEMETRY_DIR": str(segments)} | environment)
        command = [harness.CINCH, "agent", "--history", history, "--interval", "0.1", *arguments]
        self.process = subprocess.Popen([str(word) for word in command], env=env, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        found = re.search(r"(http://\S+)/,", said)
        if not found:
            self.process.kill()
            raise AssertionError(said + self.process.communicate()[1])
        self.url = found[1]

    def get(self, path, token=None):
        request = urllib.request.Request(self.url + path)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self):
        """{name: [(labels, value)]}, by the reference parser."""
        return {
            family.name: [(sample.labels, sample.value) for sample in family.samples]
            for family in text_string_to_metric_families(self.get("/metrics"))
        }

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        _, rest = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def test_metrics_and_history_of_a_run(tmp_path):
    history = tmp_path / "history.sqlite"
    training = Training(tmp_path, cinch_run(sys.executable))
    try:
        with Agent(training.folder, history, "--listen", "127.0.0.1:0") as agent:
            metrics = agent.metrics()
            assert metrics["cinch_runs"] == [({}, 1)]
            labels = {"job": "program.py", "rank": "", "slot": "0"}
            assert metrics["cinch_steps"] == [(labels, 3)]
            ((_, ratio),) = metrics["cinch_compression_ratio"]
            assert ratio > 2
            devices = {sample["device"] for sample, _ in metrics["cinch_allocator_reserved_bytes"]}
            assert devices == {"cpu"}
            assert any("division" in sample["codec"] for sample, _ in metrics["cinch_codec_raw_bytes"])
            # Every series is told apart by bounded labels alone.
            for samples in metrics.values():
                for sample, _ in samples:
                    assert set(sample) <= {"job", "rank", "slot", "device", "codec", "policy", "torch"}

            (run,) = json.loads(agent.get("/api/v1/runs"))["runs"]
            assert run["live"]["steps"] == 3
            assert json.loads(agent.get("/health"))["status"] == "ok"
            assert "<title>Cinch" in agent.get("/")
            training.let_go()
            wait_for(lambda: agent.metrics()["cinch_runs"] == [({}, 0)])
            assert agent.end() == (0, "")
        # A later agent still knows it.
        with Agent(training.folder, history, "--listen", "127.0.0.1:0") as agent:
            (past,) = json.loads(agent.get("/api/v1/history"))["runs"]
            assert (past["pid"], past["steps"], past["job"]) == (run["pid"], 3, "program.py")
            one = json.loads(agent.get(f"/api/v1/history/{past['id']}"))
            assert one["points"][-1]["step"] == 3
            with pytest.raises(urllib.error.HTTPError) as refused:
                agent.get("/api/v1/history/999")
            assert refused.value.code == 404
    finally:
        training.kill_if_running()


def test_every_metric_of_the_dashboard_is_served(tmp_path):
    with Agent(tmp_path, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
        served = set(re.findall(r"^# TYPE (\S+)", agent.get("/metrics"), re.MULTILINE))
    dashboard = (harness.CONFIGS / "agent/grafana.json").read_text()
    used = set(re.findall(r"\bcinch_\w+", dashboard))
    assert used and used <= served, used - served


def test_what_it_refuses(tmp_path):
    def refused(address, history=tmp_path / "history.sqlite"):
        done = harness.run(
            [harness.CINCH, "agent", "--history", history, "--listen", address],
            harness.plain_environment({"CINCH_TELEMETRY_DIR": str(tmp_path)}),
        )
        assert done.status == 2, done
        return done.stderr

    assert "CINCH_AGENT_TOKEN" in refused("0.0.0.0:0")
    assert "HOST:PORT" in refused("here")
    assert "/nowhere" in refused("127.0.0.1:0", "/nowhere/h.sqlite")
    with Agent(tmp_path, tmp_path / "other.sqlite", "--listen", "127.0.0.1:0") as agent:
        assert "another agent" in refused(agent.url.removeprefix("http://"))


def test_with_a_token(tmp_path):
    with Agent(tmp_path, tmp_path / "h.sqlite", "--listen", "127.0.0.1:0", CINCH_AGENT_TOKEN="secret") as agent:
        with pytest.raises(urllib.error.HTTPError) as refused:
            agent.get("/metrics")
        assert refused.value.code == 401
        assert "cinch_runs 0" in agent.get("/metrics", token="secret")
