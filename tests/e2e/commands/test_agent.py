# SPDX-License-Identifier: Apache-2.0
"""`cinch agent` beside real training: what Prometheus reads from it, and what is left when the run has ended."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import browser
import harness
from watched import PATIENCE, Agent, Training, cinch_run, wait_for


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
            assert any("group_quant" in sample["codec"] for sample, _ in metrics["cinch_codec_raw_bytes"])
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


PROMETHEUS = harness.BUILD / "prometheus/prometheus"


@pytest.mark.skipif(not PROMETHEUS.exists(), reason="scripts/setup found no package prometheus")
def test_a_prometheus_server_reads_it(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def asked(what):
        with urllib.request.urlopen(f"http://{address}/api/v1/{what}", timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def knows_the_run():
        try:
            found = asked("query?query=cinch_steps_total")["result"]
        except OSError:
            return False  # it only starts
        return [one["value"][1] for one in found] == ["3"]

    training = Training(tmp_path, cinch_run(sys.executable))
    try:
        with Agent(training.folder, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
            linted = subprocess.run(
                [PROMETHEUS.with_name("promtool"), "check", "metrics"], input=agent.get("/metrics"),
                capture_output=True, text=True,
            )  # fmt: skip
            assert (linted.returncode, linted.stderr) == (0, "")
            target = agent.url.removeprefix("http://")
            (tmp_path / "prometheus.yml").write_text(json.dumps({
                "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
                "scrape_configs": [{"job_name": "cinch", "static_configs": [{"targets": [target]}]}],
            }))  # fmt: skip
            with open(tmp_path / "prometheus.log", "w") as log:
                server = subprocess.Popen(
                    [PROMETHEUS, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                     f"--web.listen-address={address}"], stdout=log, stderr=log,
                )  # fmt: skip
            try:
                wait_for(knows_the_run)
                (shown,) = asked("targets")["activeTargets"]
                assert (shown["health"], shown["lastError"]) == ("up", "")
                described = asked("metadata")
                assert described["cinch_steps_total"][0]["type"] == "counter"
            finally:
                server.kill()
                server.wait()
        training.let_go()
    finally:
        training.kill_if_running()


@browser.needed
def test_the_live_page_in_a_browser(tmp_path):
    training = Training(tmp_path, cinch_run(sys.executable))
    try:
        with Agent(training.folder, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
            shown = browser.browse(agent.url + "/", "--dump-dom")
            assert "CONSOLE" not in shown.stderr, shown.stderr
            (run,) = json.loads(agent.get("/api/v1/runs"))["runs"]
            assert f'id="run-{run["pid"]}"' in shown.stdout and "program.py" in shown.stdout
        training.let_go()
    finally:
        training.kill_if_running()


def test_every_metric_of_the_dashboard_is_served(tmp_path):
    with Agent(tmp_path, tmp_path / "history.sqlite", "--listen", "127.0.0.1:0") as agent:
        served = set(re.findall(r"^# TYPE (\S+)", agent.get("/metrics"), re.MULTILINE))
    dashboard = (harness.CONFIGS / "agent/grafana.json").read_text()
    used = set(re.findall(r"\bcinch_\w+", dashboard))
    assert used and used <= served, used - served


def test_what_it_refuses(tmp_path):
    def refused(address):
        done = harness.run(
            [harness.CINCH, "agent", "--history", tmp_path / "history.sqlite", "--listen", address],
            harness.plain_environment({"CINCH_TELEMETRY_DIR": str(tmp_path)}),
        )
        assert done.status == 2, done
        return done.stderr

    assert "CINCH_AGENT_TOKEN" in refused("0.0.0.0:0")
    assert "HOST:PORT" in refused("here")
    with Agent(tmp_path, tmp_path / "other.sqlite", "--listen", "127.0.0.1:0") as agent:
        assert "another agent" in refused(agent.url.removeprefix("http://"))


def test_goes_on_without_a_history_and_an_agents_name(tmp_path):
    """Both are taken: the file by something else, the name in /dev/shm by another user."""
    (tmp_path / "text").write_text("no database, \x1b]52;c;AAAA\x07" * 200)
    name = tmp_path / f"cinch-{os.geteuid()}.agent"
    name.write_text("theirs")
    name.chmod(0o644)
    with Agent(tmp_path, tmp_path / "text", "--listen", "127.0.0.1:0") as agent:
        assert "no history: cannot use the history" in agent.said
        wait_for(lambda: "private file" in json.loads(agent.get("/health"))["fault"])
        health = json.loads(agent.get("/health"))
        assert health["status"] == "degraded" and "not a database" in health["fault"]
        assert "cinch_runs 0" in agent.get("/metrics")
        with pytest.raises(urllib.error.HTTPError) as refused:
            agent.get("/api/v1/history")
        assert b"not a database" in refused.value.read()
        status, said = agent.end()
        assert status == 0 and said.count("do not share memory") == 1, said


def test_with_a_token(tmp_path):
    with Agent(tmp_path, tmp_path / "h.sqlite", "--listen", "127.0.0.1:0", CINCH_AGENT_TOKEN="secret") as agent:
        with pytest.raises(urllib.error.HTTPError) as refused:
            agent.get("/metrics")
        assert refused.value.code == 401
        assert "cinch_runs 0" in agent.get("/metrics", token="secret")
