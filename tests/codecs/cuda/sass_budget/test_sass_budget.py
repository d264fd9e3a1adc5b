# SPDX-License-Identifier: Apache-2.0
"""The counter's own tests: what it finds, and that it does find it."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import disassembly  # noqa: E402
from alu import lut3  # noqa: E402
from cases import record, run  # noqa: E402
from disassembly import NoTools, kernels_of, parse  # noqa: E402
from floats import fused  # noqa: E402
from machine import Program  # noqa: E402
from memory import GLOBAL_AT, Bytes, Fault, Traffic  # noqa: E402

LIBRARY, RECORD = os.environ["CINCH_CUDA_LIBRARY"], os.environ["CINCH_RECORD_LAUNCHES"]
CASE = {"name": "small", "codec": "sign", "type": "bfloat16", "width": "2048", "reads": "sign"}


@pytest.fixture(scope="module")
def sign_kernels():
    try:
        return kernels_of(LIBRARY, [p for p in sys.path if p.endswith("site-packages")], "sign_")
    except NoTools as reason:
        pytest.skip(str(reason))


def encode_of(kernels):
    return next(case for case in record(RECORD, [CASE], kernels) if case.direction == "encode")


def test_counts_every_access_of_a_case(sign_kernels):
    figures, _ = run(encode_of(sign_kernels), {n: Program(k) for n, k in sign_kernels.items()})
    assert figures["accesses"]["LDG 16"] == 1 / 8  # 16 bytes are eight elements
    assert figures["moved"] == pytest.approx(1, abs=0.05)
    assert figures["instructions"] > 3


def test_finds_an_instruction_that_computes_something_else(sign_kernels):
    case = encode_of(sign_kernels)
    kernel = sign_kernels[case.launches[0].kernel]
    stored = {i.operands[1] for i in kernel.instructions if i.opcode == "STG.E.U8"}
    writers = [i for i in kernel.instructions if i.opcode == "LOP3.LUT" and i.operands[0] in stored]
    kept = [list(i.operands) for i in writers]
    for writer in writers:
        writer.operands = ["RZ", *writer.operands[1:]]
    try:
        with pytest.raises(Fault, match="not the reference's"):
            run(case, {n: Program(k) for n, k in sign_kernels.items()})
    finally:
        for writer, operands in zip(writers, kept):
            writer.operands = operands


def test_fails_when_a_budget_is_exceeded(sign_kernels, tmp_path):
    def status(instructions):
        budgets = tmp_path / "budgets.json"
        entry = {**CASE, "encode": {"instructions": instructions}}
        budgets.write_text(json.dumps({"nvcc": "13.0", "cases": [entry]}))
        command = [sys.executable, HERE, "--binary", LIBRARY, "--record", RECORD, "--budgets", budgets]
        return subprocess.run(command, capture_output=True, text=True)

    assert status(1000).returncode == 0
    over = status(1)
    assert over.returncode == 1 and "OVER: instructions" in over.stdout


def test_says_where_it_looked_for_the_disassembler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoTools, match="no cuobjdump on PATH"):
        disassembly.find_tools([tmp_path])


def test_reads_listings():
    listing = """
\t.section\t.text._Z1f,"ax",@progbits
_Z1f:
        /*0000*/              @!P0 IADD3.X R4, R2, c[0x0][0x28], ~R5.reuse, P1, !PT ;
.L_x_1:
        /*0010*/                   LDG.E.128 R4, desc[UR4][R2.64+0x10] ;
\t.section\t.debug_frame,"",@progbits
"""
    kernel = parse(listing)["_Z1f"]
    first, second = kernel.instructions
    assert (first.guard, first.opcode, first.operands[2]) == ("!P0", "IADD3.X", "c[0x0][0x28]")
    assert (second.address, second.operands) == (16, ["R4", "desc[UR4][R2.64+0x10]"])
    assert kernel.labels[".L_x_1"] == 1


def test_bank_conflicts():
    def cycles(addresses, size):
        traffic = Traffic(0)
        traffic.note_shared(np.array(addresses), size, np.arange(32))
        return traffic.shared_cycles

    lanes = np.arange(32)
    assert cycles(4 * lanes, 4) == 1
    assert cycles(0 * lanes, 4) == 1  # one word for all
    assert cycles(8 * lanes, 4) == 2
    assert cycles(128 * lanes, 4) == 32
    assert cycles(8 * lanes, 8) == 2
    assert cycles(16 * lanes, 16) == 4
    assert cycles(32 * lanes, 16) == 8
    assert cycles(2 * lanes, 2) == 1


def test_memory_refuses_what_a_gpu_refuses():
    valid = np.zeros(64, bool)
    valid[:32] = True
    memory = Bytes(GLOBAL_AT, np.zeros(64, np.uint8), valid)
    at = lambda offset: np.array([GLOBAL_AT + offset])
    assert memory.load(at(28), 4)[0] == 0
    for offset, size in ((2, 4), (32, 4), (64, 4), (-4, 4)):
        with pytest.raises(Fault):
            memory.load(at(offset), size)


def test_arithmetic():
    a, b, c = (np.array([x], np.uint32) for x in (0b1100, 0b1010, 0b0110))
    assert lut3(0xC0, a, b, c)[0] == a[0] & b[0]
    assert lut3(0x96, a, b, c)[0] == a[0] ^ b[0] ^ c[0]
    # Just above and just below the middle between two floats, by less than float64 holds.
    x, one = np.array([1 + 2.0**-12], np.float32), np.array([1], np.float32)
    for sign in (1, -1):
        tiny = np.array([sign * 2.0**-80], np.float32)
        middle = np.float32(2.0**-24) * one
        assert fused(one, middle, np.array([1], np.float32))[0] == 1
        assert fused(x, x, tiny)[0] == np.float32(1 + 2.0**-11 + (2.0**-23 if sign > 0 else 0))
