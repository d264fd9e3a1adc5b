# SPDX-License-Identifier: Apache-2.0
"""Tensors of wrapper subclasses are taken apart and held: the same bits under a lossless policy, and nothing that is
wrong under the default one."""

import pytest

import harness
from workloads import registry

NOT_TAKEN = (
    "classes_that_do_not_come_back",
    "changed_in_place",  # which the program owns
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return harness.run_pair("wrappers", tmp_path_factory.mktemp("wrappers"))


@pytest.mark.parametrize("name", registry.load("wrappers"))
def test_same_bits(pair, name):
    pair.check(name, takes=name not in NOT_TAKEN)


def test_silent(pair):
    pair.check_silence()


def test_under_the_default_policy(pair, tmp_path):
    run = harness.run_workloads("wrappers", tmp_path, "default")
    run.check_nothing_is_wrong(pair.plain)


# A signal's handler runs between two instructions of Python, also of Cinch's, and what it raises is the program's.
INTERRUPTED = """
import itertools
import signal
import sys
import torch
from workloads.wrappers import Wrapped, inputs

class TimeOver(Exception): pass

def end(signal, frame):
    raise TimeOver(sys._getframe(1).f_code.co_filename)

signal.signal(signal.SIGALRM, end)
x, w = (Wrapped(each).requires_grad_() for each in inputs(2, 16))
(x @ w).sin().sum().backward()  # PyTorch imports more when it first meets such a class
where = set()
for _ in range(400):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.003)
        for _ in itertools.count():
            (x @ w).sin().sum().backward()
    except TimeOver as error:
        where.add(str(error))
print("interrupted in Cinch:", "<cinch>" in where)
x.grad = None
(x @ w).sin().sum().backward()
print(x.grad.inner.sum().item())
"""


def test_what_a_signals_handler_raises_reaches_the_program(tmp_path):
    plain = harness.run_python(["-c", INTERRUPTED], tmp_path / "plain")
    with_cinch = harness.run_python(["-c", INTERRUPTED], tmp_path / "cinch", harness.LOSSLESS)
    assert with_cinch.stdout == plain.stdout.replace("False", "True")
    assert with_cinch.stderr == ""


def test_reasons_are_reported(pair):
    rows = {row["reason"]: row["count"] for row in pair.cinch.run.report["passed_through"]}
    assert rows["tensor subclass, or not plain dense memory"] > 0
    assert "integers (indices, targets)" not in rows
