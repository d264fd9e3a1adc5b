# SPDX-License-Identifier: Apache-2.0
"""Instructions that exchange values between the threads of a warp, or between predicates and registers."""

import numpy as np

from operands import number

U32 = np.uint32


def to_uniform(o):
    """R2UR: the first thread's value."""
    r = number(o.texts[-1])
    return lambda at: [at.first_of_warps(at.block.R[r])]


def predicates_to_register(o):
    mask = U32(int(o.texts[3], 16))
    others = o.source_text(2)

    def run(at):
        bits = sum(at.block.P[i][at.threads].astype(np.uint32) << U32(i) for i in range(7))
        return [bits & mask | others(at) & ~mask]

    if o.texts[1] != "PR" or "B" in o.opcode[3:]:
        raise KeyError("P2R")
    return run


def register_to_predicates(o):
    a = o.source_text(1)
    mask = int(o.texts[2], 16)

    def run(at):
        value = a(at)
        for i in range(7):
            if mask >> i & 1:
                at.block.P[i][at.threads] = (value >> U32(i) & U32(1)).astype(bool)
        return None

    return run


def vote(o):
    uniform = o.parts[0] == "VOTEU"
    source = o.predicate_text(o.texts[-1])
    outs = o.texts[:-1]
    how = o.parts[1]

    def run(at):
        block = at.block
        value = source(at.vector())
        votes = np.zeros(block.warps, np.uint32)
        lanes = np.zeros(block.warps, np.uint32)
        bit = U32(1) << (at.all_threads % 32).astype(np.uint32)
        np.bitwise_or.at(lanes, block.warp_of[at.all_threads], bit)
        np.bitwise_or.at(votes, block.warp_of[at.all_threads], np.where(value, bit, U32(0)))
        decided = votes != 0 if how == "ANY" else votes == lanes
        for name in outs:
            if name in ("PT", "UPT", "RZ", "URZ"):
                continue
            if name.startswith("UP"):
                block.UP[number(name)][at.warps] = decided[at.warps]
            elif name.startswith("UR"):
                block.U[number(name)][at.warps] = votes[at.warps]
            elif name.startswith("P"):
                block.P[number(name)][at.all_threads] = decided[block.warp_of[at.all_threads]]
            else:
                block.R[number(name)][at.all_threads] = votes[block.warp_of[at.all_threads]]
        return None

    return run


def shuffle(o):
    predicate, target = o.texts[0], number(o.texts[1])
    a, amount, clamp = number(o.texts[2]), o.source_text(3), o.source_text(4)
    how = o.parts[1]

    def run(at):
        threads = at.threads
        lane = threads % 32
        by = amount(at).astype(np.int64)
        limit = clamp(at).astype(np.int64)
        segment, bound = limit >> 8 & 31, limit & 31
        low = lane & segment
        highest = low | (bound & ~segment)
        source = {"IDX": lambda: low | (by & ~segment), "UP": lambda: lane - by, "DOWN": lambda: lane + by,
                  "BFLY": lambda: lane ^ by}[how]()
        inside = source >= highest if how == "UP" else source <= highest
        source = np.where(inside, source, lane)
        at.block.R[target][threads] = at.block.R[a][threads // 32 * 32 + source]
        if predicate != "PT":
            at.block.P[number(predicate)][threads] = inside
        return None

    return run


def reduce(o):
    a = number(o.texts[1])
    signed = "S32" in o.parts
    function = {"MIN": np.minimum, "MAX": np.maximum, "SUM": np.add, "OR": np.bitwise_or, "AND": np.bitwise_and,
                "XOR": np.bitwise_xor}[next((p for p in o.parts[1:] if p not in ("S32", "U32")), "SUM")]

    def run(at):
        values = at.block.R[a]
        values = values.view(np.int32) if signed else values
        result = []
        for warp in at.warps:
            mine = at.all_threads[at.block.warp_of[at.all_threads] == warp]
            result.append(function.reduce(values[mine]))
        return [np.array(result).astype(np.int64).astype(np.uint32)]

    return run


LANES = {
    "P2R": predicates_to_register, "R2P": register_to_predicates, "VOTE": vote, "VOTEU": vote, "SHFL": shuffle,
    "REDUX": reduce, "R2UR": to_uniform,
}
