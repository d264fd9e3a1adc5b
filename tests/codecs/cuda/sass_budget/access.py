# SPDX-License-Identifier: Apache-2.0
"""Instructions that read or write memory."""

import re

import numpy as np

from alu import number
from memory import Fault

SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
TERM = re.compile(r"([+-]?)(-?)(UR\w+|R\w+|0x[0-9a-f]+)((?:\.\w+)*)")


def size_of(opcode):
    return next((SIZES[part] for part in opcode.split(".")[1:] if part in SIZES), 4)


def address(operand):
    """What computes the addresses that "[R2.64+0x10]", "desc[UR4][R2.64]" or "[R3+UR4]" stand for."""
    inner = operand[operand.rindex("[") + 1 : -1]
    terms = []
    for _, minus, name, modifiers in TERM.findall(inner):
        wide = ".64" in modifiers
        scale = next((int(part[1:]) for part in modifiers.split(".") if re.fullmatch(r"X\d+", part)), 1)
        terms.append((name, wide, scale, -1 if minus else 1))

    def compute(block, threads):
        total = np.zeros(len(threads), np.int64)
        for name, wide, scale, sign in terms:
            if name.startswith("0x"):
                total += sign * int(name, 16)
                continue
            r = number(name)
            if name.startswith("UR"):
                if name == "URZ":
                    continue
                value = block.U[r][block.warp_of[threads]].astype(np.int64)
                if "desc" in operand or wide:
                    value |= block.U[r + 1][block.warp_of[threads]].astype(np.int64) << 32
                total += value
            elif name != "RZ":
                value = block.R[r][threads].astype(np.int64)
                if wide:
                    value |= block.R[r + 1][threads].astype(np.int64) << 32
                total += value * scale
        return total if "64" in inner or "desc" in operand else total & 0xFFFFFFFF

    return compute


def store_registers(block, threads, register, values):
    if register == 255:
        return
    for i, value in enumerate(values):
        block.R[register + i][threads] = value


def load(opcode, operands, guarded):
    kind, size = opcode.split(".")[0], size_of(opcode)
    signed = ".S8" in opcode or ".S16" in opcode
    target, where = number(operands[0]), address(operands[-1])
    shared = kind == "LDS"

    def run(block, group, warps):
        threads = guarded(block, group)
        if len(threads) == 0:
            return
        addresses = where(block, threads)
        values = (block.shared if shared else block.memory).load(addresses, size, signed)
        note(block, kind, size, addresses, threads, False)
        store_registers(block, threads, target, values)

    return run


def store(opcode, operands, guarded):
    kind, size = opcode.split(".")[0], size_of(opcode)
    source, where = number(operands[1]), address(operands[0])
    shared = kind == "STS"

    def run(block, group, warps):
        threads = guarded(block, group)
        if len(threads) == 0:
            return
        addresses = where(block, threads)
        count = max(1, size // 4)
        values = [block.R[min(source + i, 255) if source != 255 else 255][threads] for i in range(count)]
        (block.shared if shared else block.memory).store(addresses, size, values)
        note(block, kind, size, addresses, threads, True)

    return run


def note(block, kind, size, addresses, threads, writes):
    block.traffic.count(kind, size, len(threads))
    if kind in ("LDG", "STG", "ATOMG", "REDG"):
        block.traffic.note_global(addresses, size, block.warp_of[threads], writes)
    else:
        block.traffic.note_shared(addresses, size, threads)


def combine(operation, old, new, signed, bits):
    if operation in ("MIN", "MAX") and signed:
        to_signed = lambda x: x - (1 << bits) if x >> (bits - 1) else x
        old, new = to_signed(old), to_signed(new)
    result = {
        "ADD": lambda: old + new, "MIN": lambda: min(old, new), "MAX": lambda: max(old, new),
        "OR": lambda: old | new, "AND": lambda: old & new, "XOR": lambda: old ^ new, "EXCH": lambda: new,
        "INC": lambda: old + 1,
    }[operation]()
    return result & ((1 << bits) - 1)


def atomic(opcode, operands, guarded):
    parts = opcode.split(".")
    kind = parts[0]
    operation = next(p for p in ("ADD", "MIN", "MAX", "OR", "AND", "XOR", "EXCH", "INC") if p in parts)
    size = 8 if "64" in parts else 4
    signed = "S32" in parts or "S64" in parts
    place = next(i for i, operand in enumerate(operands) if "[" in operand)
    where = address(operands[place])
    source = number(operands[place + 1]) if place + 1 < len(operands) else 255  # POPC.INC has none
    target = 255 if kind == "REDG" else number(operands[place - 1])
    shared = kind == "ATOMS"

    def run(block, group, warps):
        threads = guarded(block, group)
        if len(threads) == 0:
            return
        addresses = where(block, threads)
        memory = block.shared if shared else block.memory
        note(block, kind, size, addresses, threads, True)
        for i, thread in enumerate(threads):
            at = addresses[i : i + 1]
            old = sum(int(word[0]) << (32 * w) for w, word in enumerate(memory.load(at, size)))
            new = 0 if source == 255 else sum(int(block.R[source + w][thread]) << (32 * w) for w in range(size // 4))
            made = combine(operation, old, new, signed, 8 * size)
            memory.store(at, size, [np.array([made >> (32 * w) & 0xFFFFFFFF], np.uint32) for w in range(size // 4)])
            store_registers(block, [thread], target, [old >> (32 * w) & 0xFFFFFFFF for w in range(size // 4)])

    return run


OPCODES = {"LDG": load, "LDS": load, "STG": store, "STS": store, "ATOMS": atomic, "ATOMG": atomic, "REDG": atomic,
           "RED": atomic}


def make(instruction):
    opcode, guard = instruction.opcode, instruction.guard
    if "[" not in " ".join(instruction.operands):
        raise Fault(f"not understood: {opcode}")
    guarded = lambda block, group: block.guarded(guard, group)
    return OPCODES[opcode.split(".")[0]](opcode, instruction.operands, guarded)
