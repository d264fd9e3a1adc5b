# SPDX-License-Identifier: Apache-2.0
"""Trainings that are watched while they go on, by `cinch watch` and `cinch agent`."""

import json
import re
import signal
import subprocess
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

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
        self.said = said

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
        # communicate() would lose what readline() has read ahead.
        rest = self.process.stderr.read()
        return self.process.wait(timeout=PATIENCE), rest

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
