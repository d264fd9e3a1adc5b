# SPDX-License-Identifier: Apache-2.0
"""Where the wheel keeps Cinch's command and libraries. Nothing here needs to be imported by a
training program: `cinch run -- python train.py`, or LD_PRELOAD as `cinch env` prints it."""

import os
import pathlib
import sys

_HERE = pathlib.Path(__file__).resolve().parent


def executable() -> pathlib.Path:
    """The command itself."""
    return _HERE / "bin" / "cinch"


def preload_library() -> pathlib.Path:
    """What LD_PRELOAD has to name."""
    return _HERE / "lib" / "libcinch.so"


def main() -> None:
    """The `cinch` script: becomes the command."""
    command = executable()
    # The interpreter of this environment is the one that people mean by "python".
    folder = os.path.dirname(sys.executable)
    path = os.environ.get("PATH", os.defpath)
    if folder and folder not in path.split(os.pathsep):
        os.environ["PATH"] = folder + os.pathsep + path
    os.execv(command, [str(command), *sys.argv[1:]])
