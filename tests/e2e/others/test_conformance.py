# SPDX-License-Identifier: Apache-2.0
"""scripts/torch-conformance tells tests that fail with Cinch from those that fail anyway, or now and then."""

import json
import sys

import harness

SCRIPT = harness.ROOT / "scripts/torch-conformance"

TESTS = """
import os, pathlib, unittest
import torch
from torch.testing import cases_that_are_gone, requires_what_is_gone
from torch.utils.what_is_gone import with_its_name

assert ["a case"] + cases_that_are_gone == ["a case"]
UNDER_CINCH = "LD_PRELOAD" in os.environ

class Sample(unittest.TestCase):
    def test_gradient(self):
        x = torch.randn(64, 64, requires_grad=True)
        (x * 2).sin().sum().backward()

    def test_fails_anyway(self):
        self.fail()

    def test_fails_with_cinch(self):
        self.assertFalse(UNDER_CINCH)

    def test_ends_the_process_with_cinch(self):
        if UNDER_CINCH:
            os._exit(1)

    def test_fails_once_with_cinch(self):
        mark = pathlib.Path("mark-" + os.environ.get("CINCH_POLICY", "").rsplit("/")[-1])
        known = mark.exists()
        mark.touch()
        self.assertTrue(known or not UNDER_CINCH)

    @requires_what_is_gone
    def test_of_another_torch(self):
        self.fail()

    @with_its_name(3)
    def test_of_another_torch_too(self):
        self.fail()

    def test_that_calls_what_is_gone(self):
        with_its_name()
        self.fail()

    @unittest.skip("not here")
    def test_skipped(self):
        pass
"""


def test_sample(tmp_path):
    (tmp_path / "test_sample.py").write_text(TESTS)
    done = harness.run(
        [
            sys.executable, SCRIPT, tmp_path, "test_sample.py", "--build", harness.BUILD, "--python", sys.executable,
            "--output", tmp_path / "output", "--policy", "lossless", "--jobs", "1", "--reruns", "1",
        ],
        harness.plain_environment(),
    )  # fmt: skip
    assert done.status == 1, done.stdout + done.stderr
    summary = json.loads((tmp_path / "output/summary.json").read_text())
    assert summary["passing"] == 4
    newly_failing, flaky = (
        sorted(line.rsplit("::", 1)[-1] for line in summary[kind]["lossless"]) for kind in ("newly_failing", "flaky")
    )
    assert newly_failing == ["test_ends_the_process_with_cinch", "test_fails_with_cinch"]
    assert flaky == ["test_fails_once_with_cinch"]


def test_nothing_to_run(tmp_path):
    done = harness.run([sys.executable, SCRIPT, tmp_path], harness.plain_environment())
    assert done.status == 2
    assert "test/ of a PyTorch source tree" in done.stderr
