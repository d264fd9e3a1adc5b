# SPDX-License-Identifier: Apache-2.0
"""However a program ends while graphs are alive, it ends as it does without Cinch: same status, same output."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import time

import pytest

import harness

# What every program starts with: a graph that is half walked, and one that nobody has walked.
BEGINNING = """
import os, signal, sys, threading, time
import torch
from torch import nn
from workloads.autograd import deep
from workloads.models import ConvNet, cross_entropy
torch.set_num_threads(1)  # OpenMP's other threads do not survive a fork
torch.manual_seed(0)
model = ConvNet()
x = torch.randn(8, 3, 32, 32)
leaf = torch.randn(64, 64, requires_grad=True)
kept = [cross_entropy()(model(x)), deep(leaf).sum()]
torch.autograd.grad(kept[1], leaf, retain_graph=True)
print("graphs are alive", flush=True)
"""

PROGRAMS = {
    "end_of_the_script": "",
    "graphs_in_a_cycle": "class Cycle: pass\ncycle = Cycle(); cycle.me = cycle; cycle.kept = kept",
    "graphs_in_a_module_of_the_interpreter": "sys.kept = kept; del kept",
    "backward_from_an_exit_handler": """
import atexit
atexit.register(lambda: (kept[0].backward(), print(sum(p.grad.double().sum().item() for p in model.parameters()))))
""",
    "backward_from_a_finalizer": """
class Last:
    def __del__(self, kept=kept, leaf=leaf, grad=torch.autograd.grad, print=print):
        print(grad(kept[1], leaf)[0].sum().item())
sys.last = Last()
""",
    "sys_exit": "sys.exit(3)",
    "os__exit": "os._exit(4)",
    "uncaught_exception": "raise ValueError('the program stops')",
    "exception_in_backward": "deep(leaf).backward()",
    "abort": "os.abort()",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "handler_of_its_own": """
signal.signal(signal.SIGTERM, lambda *_: (kept[0].backward(), sys.exit(5)))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""",
    "daemon_thread_trains_on": """
def work():
    while True:
        cross_entropy()(model(x)).backward()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
os._exit(6)
""",
    "thread_ends_last": """
def work():
    time.sleep(0.5)
    kept[0].backward()
    print("walked", flush=True)
threading.Thread(target=work).start()
""",
    "exec_of_another_program": "os.execv('/bin/sh', ['/bin/sh', '-c', 'echo another; exit 7'])",
    "forked_child_ends_first": """
child = os.fork()
if child == 0:
    kept[1].backward()
    sys.exit(8)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
kept[1].backward()
""",
}


def ended(program: str, folder, policy=None) -> harness.Run:
    folder.mkdir(parents=True)
    extra = harness.preload_environment(folder, policy) if policy is not None else None
    return harness.run([sys.executable, "-c", BEGINNING + program], harness.plain_environment(extra))


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """Name → how the program ends plainly, and under Cinch. Most of that time they import torch."""
    folder = tmp_path_factory.mktemp("endings")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = {n: pool.submit(ended, p, folder / n / "plain") for n, p in PROGRAMS.items()}
        cinch = {n: pool.submit(ended, p, folder / n / "cinch", harness.LOSSLESS) for n, p in PROGRAMS.items()}
        return {name: (plain[name].result(), cinch[name].result()) for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_end(ends, name):
    plain, cinch = ends[name]
    assert "graphs are alive" in plain.stdout
    assert (cinch.status, cinch.stdout) == (plain.status, plain.stdout)
    assert harness.new_lines(cinch.stderr, plain.stderr) == []


TRAINING_FOREVER = """
step = 0
while True:
    cross_entropy()(model(x)).backward()
    deep(leaf, 20).sum().backward()
    step += 1
    if step == 3:
        print("training", flush=True)
"""


def interrupted(folder, policy, after: float) -> tuple[int, list[str]]:
    """Exit status and the last line on stderr of a training that gets Ctrl-C some time after its third step."""
    folder.mkdir()
    extra = harness.preload_environment(folder, policy) if policy is not None else None
    process = subprocess.Popen(
        [sys.executable, "-c", BEGINNING + TRAINING_FOREVER],
        env=harness.plain_environment(extra), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while (line := process.stdout.readline()) != "training\n":
            assert line, process.communicate()[1]
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, [line for line in stderr.splitlines() if line][-1:]


@pytest.mark.parametrize(
    "policy",
    [pytest.param(harness.LOSSLESS, id="lossless"), pytest.param("division", id="division", marks=pytest.mark.quick)],
)
def test_interrupted(policy, tmp_path):
    expected = (-signal.SIGINT, ["KeyboardInterrupt"])
    assert interrupted(tmp_path / "plain", None, 0) == expected
    for number, after in enumerate((0, 0.013, 0.05)):
        assert interrupted(tmp_path / f"cinch{number}", policy, after) == expected
