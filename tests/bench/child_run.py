# SPDX-License-Identifier: Apache-2.0
"""One program in a process of its own, plainly or under a policy, for benchmarks of what policies do."""

import json
import os
import pathlib
import subprocess


class Failed(SystemExit):
    """A program's failure. Uncaught it ends the benchmark and says what failed."""


def clean_environment() -> dict[str, str]:
    """The caller's, without anything that would load or steer Cinch. Spinning threads would measure who else uses the
    machine."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
    return clean | {"OMP_WAIT_POLICY": "PASSIVE"}


def run(command: list, folder: pathlib.Path, what: str, preload: str, policy: dict | None, **environment: str):
    """Runs `command` on one thread, under the preload where there is a `policy`. Throws Failed, which says `what` failed.
    @return the process that has ended, and the report or None"""
    clean = clean_environment() | {"OMP_NUM_THREADS": "1"} | environment
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    if policy is not None:
        file = folder / "policy.json"
        file.write_text(json.dumps(policy))
        clean |= {"LD_PRELOAD": preload, "CINCH_POLICY": str(file), "CINCH_REPORT": str(report), "CINCH_STRICT": "1"}
    done = subprocess.run([str(word) for word in command], env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{what}: exit status {done.returncode}\n{done.stderr}")
    return done, json.loads(report.read_text()) if report.is_file() else None
