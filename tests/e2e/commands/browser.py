# SPDX-License-Identifier: Apache-2.0
"""Chromium without a screen, for the pages that Cinch makes."""

import shutil
import subprocess

import pytest

PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
needed = pytest.mark.skipif(PROGRAM is None, reason="no chromium-headless-shell or chromium on this machine")


def browse(url: str, *options: str) -> subprocess.CompletedProcess:
    """Opens a page; lines of its console go to stderr, as CONSOLE."""
    command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
    return subprocess.run(
        [*command, "--virtual-time-budget=2000", *options, url], capture_output=True, text=True, timeout=90
    )
