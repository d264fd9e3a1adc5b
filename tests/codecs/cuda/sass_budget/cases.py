# SPDX-License-Identifier: Apache-2.0
"""Cases: what the CUDA engine launches for one of its calls, and what running that comes to."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np

from machine import Block
from memory import GLOBAL_AT, SECTOR, WARP, Bytes, Fault, Traffic

# How each integer division by a number that is not known to the compiler begins.
DIVISION = ("I2F.U32.RP", "I2F.U64.RP", "I2F.RP")


@dataclass
class Launch:
    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    arguments: list = field(default_factory=list)


@dataclass
class Case:
    name: str
    direction: str
    elements: int
    source_bytes: int
    encoded_bytes: int
    buffers: list = field(default_factory=list)
    arena: bytes = b""
    launches: list = field(default_factory=list)
    expected: list = field(default_factory=list)


def read_cases(data):
    """What record_launches wrote."""
    cases, at = [], 0
    while at < len(data):
        end = data.index(b"\n", at)
        kind, *words = data[at:end].decode().split()
        at = end + 1
        size = 0
        if kind == "case":
            cases.append(Case(words[0], words[1], *map(int, words[2:])))
        elif kind == "buffer":
            cases[-1].buffers.append((int(words[0]), int(words[1])))
        elif kind == "arena":
            size = int(words[0])
            cases[-1].arena = data[at : at + size]
        elif kind == "launch":
            cases[-1].launches.append(Launch(words[0], *map(int, words[1:4])))
        elif kind == "argument":
            size = int(words[0])
            cases[-1].launches[-1].arguments.append(data[at : at + size])
        elif kind == "expect":
            size = int(words[1])
            cases[-1].expected.append((int(words[0]), data[at : at + size]))
        at += size
    return cases


def record(program, cases, kernels):
    """Has record_launches write the cases down. Budgets, which are objects, are no part of a case."""
    lines = [" ".join(f"{k}={v}" for k, v in case.items() if not isinstance(v, dict)) for case in cases]
    with tempfile.NamedTemporaryFile("w") as sizes:
        for kernel in kernels.values():
            print(kernel.name, *kernel.parameter_sizes, file=sizes)
        sizes.flush()
        done = subprocess.run([program, sizes.name], input="\n".join(lines).encode(), capture_output=True)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    return read_cases(done.stdout)


def run(case, programs):
    """Runs a case's launches. @return its figures, by element, and how much each opcode is of the instructions"""
    data = np.frombuffer(case.arena, np.uint8).copy()
    valid = np.zeros(len(data), bool)
    for begin, size in case.buffers:
        valid[begin : begin + size] = True
    arena = Bytes(GLOBAL_AT, data, valid)
    traffic = Traffic(len(data))
    opcodes = {}
    for launch in case.launches:
        program = programs[launch.kernel]
        issued = np.zeros(len(program.steps), np.int64)
        for index in range(launch.blocks):
            block = Block(program, launch, index, arena, traffic)
            try:
                block.run()
            except Fault as fault:
                raise Fault(f"{case.name} {case.direction}: {launch.kernel}: {fault}") from fault
            issued += block.issued
        for count, instruction in zip(issued, program.kernel.instructions):
            opcodes[instruction.opcode] = opcodes.get(instruction.opcode, 0) + int(count)
    compare(case, data)
    both = case.source_bytes + case.encoded_bytes
    divisions = sum(count for opcode, count in opcodes.items() if opcode.startswith(DIVISION))
    figures = {
        "instructions": round(sum(opcodes.values()) * WARP / case.elements, 2),
        "divisions": round(divisions * WARP / case.elements, 3),
        "moved": round(SECTOR * int(traffic.read.sum() + traffic.written.sum()) / both, 3),
        "requested": round(SECTOR * traffic.requested / both, 2),
        "shared cycles": round(WARP * traffic.shared_cycles / case.elements, 2),
        "conflicts": round(traffic.shared_cycles / max(1, traffic.shared_ideal), 2),
        "accesses": {key: round(lanes / case.elements, 3) for key, lanes in sorted(traffic.widths.items())},
    }
    return figures, {key: round(n * WARP / case.elements, 2) for key, n in opcodes.items()}


def compare(case, data):
    for begin, expected in case.expected:
        found = data[begin : begin + len(expected)].tobytes()
        if found != expected:
            wrong = next(i for i, (x, y) in enumerate(zip(found, expected)) if x != y)
            raise Fault(f"{case.name} {case.direction}: byte {wrong} of {len(expected)} is not the reference's")
