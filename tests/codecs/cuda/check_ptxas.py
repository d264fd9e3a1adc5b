# SPDX-License-Identifier: Apache-2.0
"""Fails when a kernel spills registers or uses a local-memory stack.

usage: check_ptxas.py FOLDER    all *.ptxas files below it, as cmake/record-ptxas writes them
"""

import pathlib
import re
import sys

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def kernels(text):
    """(name, architecture, stack, spilled, registers) of each kernel."""
    name = frame = None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            name = match.groups()
        elif name and (match := FRAME.search(line)):
            stack, stores, loads = map(int, match.groups())
            frame = (stack, stores + loads)
        elif name and frame and (match := REGISTERS.search(line)):
            yield *name, *frame, int(match.group(1))
            name = frame = None


def main(folder):
    rows = [row for path in sorted(pathlib.Path(folder).rglob("*.ptxas")) for row in kernels(path.read_text())]
    if not rows:
        sys.exit(f"check_ptxas.py: no kernel in any *.ptxas file below {folder}")
    bad = [row for row in rows if row[2] or row[3]]
    for name, architecture, stack, spilled, _ in bad:
        print(f"{architecture} {name}: {stack} bytes of stack, {spilled} bytes spilled")
    print(f"{len(rows)} kernels, at most {max(row[4] for row in rows)} registers, {len(bad)} with stack or spills")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main(*sys.argv[1:])
