# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the zoo one after another and prints, as JSON, what each came to.

    serve.py NAME …

Each runs in a child of this process, which has imported the libraries before: that takes longer than most trainings.
"""

import contextlib
import json
import os
import pathlib
import runpy
import shutil
import signal
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
MOST_SECONDS = 200


def run(name: str, output: str) -> None:
    """In the child: the program, as if it had been started by itself."""
    path = str(PROGRAMS / f"{name}.py")
    sys.argv = [path]
    signal.alarm(MOST_SECONDS)
    with open(output, "w", buffering=1) as file, contextlib.redirect_stdout(file):
        os.dup2(file.fileno(), 1)  # for its children
        runpy.run_path(path, run_name="__main__")


def main() -> None:
    import sklearn.datasets  # noqa: F401
    import timm  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    sys.path.insert(0, str(PROGRAMS))
    results = {}
    folder = tempfile.mkdtemp()
    for name in sys.argv[1:]:
        output = f"{folder}/{name}"
        child = os.fork()
        if child == 0:
            # The child ends as programs do, so that what is registered with atexit runs.
            return run(name, output)
        _, status = os.waitpid(child, 0)
        printed = pathlib.Path(output).read_text().splitlines()
        results[name] = {"status": os.waitstatus_to_exitcode(status), "printed": printed}
    shutil.rmtree(folder)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
