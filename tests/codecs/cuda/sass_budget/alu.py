# SPDX-License-Identifier: Apache-2.0
"""What instructions that compute do. `make` turns one into a function of (block, threads, warps).

Vector registers hold a number for each thread, uniform ones (UR) for each warp. Numbers are 32-bit words;
floats are viewed. Results are those of IEEE arithmetic, but for MUFU, whose results are those of exact
arithmetic rounded, where a GPU may be off by one unit in the last place.
"""

import re

import numpy as np

from floats import floats_of
from lanes import LANES
from operands import FLOAT, INTEGER, Operands, number, put, put_predicate  # noqa: F401 (number: for others)

MASK = np.int64(0xFFFFFFFF)
U32 = np.uint32


def wide(low, high, signed=False):
    """Two words as one number. As Python's int64: unsigned ones of more than 63 bits do not occur here."""
    joined = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    return joined.view(np.int64) if signed else joined


def as_signed(x):
    return x.astype(np.uint32).view(np.int32).astype(np.int64)


def low_word(x):
    return (x & MASK).astype(np.uint32)


# --- integers ---------------------------------------------------------------------------------------------


def imad(o):
    a, b, c = o.sources(3)
    carry = o.carry_in()
    parts = o.parts
    if "WIDE" in parts:
        return imad_wide(o, a, b)
    if "HI" in parts:
        signed = "U32" not in parts
        low, high = o.pair_of(2)

        def run(at):
            x, y = a(at), b(at)
            if signed:
                product = as_signed(x) * as_signed(y)
                return [low_word((product + wide(low(at), high(at), True)) >> 32)]
            product = x.astype(np.uint64) * y.astype(np.uint64) + wide(low(at), high(at))
            return [(product >> np.uint64(32)).astype(np.uint32)]

        return run
    def run(at):
        total = (a(at).astype(np.uint64) * b(at).astype(np.uint64) + c(at)).astype(np.uint64)
        return [((total + carry(at)) & np.uint64(0xFFFFFFFF)).astype(np.uint32)]

    return run


def imad_wide(o, a, b):
    low, high = o.pair_of(2)
    signed = "U32" not in o.parts
    carry = o.carry_in()

    def run(at):
        x, y = a(at), b(at)
        if signed:
            product = (as_signed(x) * as_signed(y)).view(np.uint64)
        else:
            product = x.astype(np.uint64) * y.astype(np.uint64)
        addend = wide(low(at), high(at))
        total = product + addend
        with_carry = total + carry(at).astype(np.uint64)
        o.carry_out(at, (total < product) | (with_carry < total))
        return [(with_carry & np.uint64(0xFFFFFFFF)).astype(np.uint32), (with_carry >> np.uint64(32)).astype(np.uint32)]

    return run


def iadd3(o):
    """Sums of two or three. -x is ~x + 1, also for the carry."""
    sources = o.sums(3)
    first, second = o.carries_in() if "X" in o.parts else (None, None)

    def run(at):
        total = sum(source(at) for source in sources)
        if first is not None:
            total = total + first(at) + second(at)
        o.carry_out(at, total >> 32 >= 1, total >> 32 >= 2)
        return [low_word(total)]

    return run


def lea(o):
    a, b = o.sources(2)
    high_form = "HI" in o.parts
    extended = "X" in o.parts
    if high_form:
        if "SX32" in o.parts:
            upper = lambda at: (as_signed(a(at)) >> 31).astype(np.int64) & MASK
            shift = o.immediate(2)
        else:
            c = o.source(2)
            upper = lambda at: c(at).astype(np.int64)
            shift = o.immediate(3)
    else:
        shift = o.immediate(2)
    carry = o.carry_in() if extended else None

    def run(at):
        base = a(at).astype(np.int64)
        if high_form:
            shifted = ((upper(at) << shift) | (base >> (32 - shift) if shift else 0)) & MASK
        else:
            shifted = (base << shift) & MASK
        total = shifted + b(at).astype(np.int64)
        if carry is not None:
            total = total + carry(at).astype(np.int64)
        o.carry_out(at, total >> 32 != 0)
        return [low_word(total)]

    return run


def lut3(table, a, b, c):
    result = np.zeros_like(a)
    for bit in range(8):
        if table >> bit & 1:
            result |= (a if bit & 4 else ~a) & (b if bit & 2 else ~b) & (c if bit & 1 else ~c)
    return result


def lop3(o):
    a, b, c = o.sources(3)
    table = o.immediate(3)

    def run(at):
        x, y, z = np.broadcast_arrays(a(at), b(at), c(at))
        result = lut3(table, x, y, z)
        o.predicate_out(at, result != 0)
        return [result]

    return run


def plop3(o):
    a, b, c = (o.predicate_source(i) for i in range(3))
    tables = o.immediate(3), o.immediate(4)

    def run(at):
        x, y, z = np.broadcast_arrays(a(at), b(at), c(at))
        o.predicate_out(at, *(lut3(table, x, y, z) for table in tables))
        return None

    return run


def shf(o):
    low, amount, high = o.sources(3)
    parts = o.parts
    left, high_word = "L" in parts, "HI" in parts
    bits = 64 if "U64" in parts or "S64" in parts else 32
    signed = "S32" in parts or "S64" in parts
    wraps = "W" in parts

    def run(at):
        s = amount(at).astype(np.int64)
        s = s & (bits - 1) if wraps else np.minimum(s, bits)
        both = wide(*np.broadcast_arrays(low(at), high(at)))
        s64 = np.minimum(s, 63).astype(np.uint64)
        if left:
            shifted = np.where(s > 63, np.uint64(0), both << s64)
        elif signed:
            shifted = (both.view(np.int64) >> s64.astype(np.int64)).view(np.uint64)
        else:
            shifted = np.where(s > 63, np.uint64(0), both >> s64)
        # Without .HI the lower word; a plain left shift of 32 bits has nothing below it.
        word = shifted >> np.uint64(32) if high_word else shifted
        return [(word & np.uint64(0xFFFFFFFF)).astype(np.uint32)]

    return run


def prmt(o):
    a, select, c = o.sources(3)

    def run(at):
        x, s, y = np.broadcast_arrays(a(at), select(at), c(at))
        both = wide(x, y)
        result = np.zeros_like(x)
        for i in range(4):
            nibble = (s >> U32(4 * i)) & U32(15)
            byte = ((both >> ((nibble & U32(7)).astype(np.uint64) * np.uint64(8))) & np.uint64(0xFF)).astype(np.uint32)
            sign = (byte >> U32(7)) * U32(0xFF)
            result |= np.where(nibble & U32(8), sign, byte) << U32(8 * i)
        return [result]

    return run


def idp(o):
    """IDP.2A: c plus two products of 16 by 8 bits."""
    a, b, c = o.sources(3)
    shift = 16 if "HI" in o.parts else 0
    if "2A" not in o.parts or o.parts.count("U8") + o.parts.count("U16") != 2:
        raise KeyError("only unsigned IDP.2A")

    def run(at):
        x, y = a(at), b(at) >> U32(shift)
        return [(x & U32(0xFFFF)) * (y & U32(0xFF)) + (x >> U32(16)) * (y >> U32(8) & U32(0xFF)) + c(at)]

    return run


def compare_integers(o):
    signed = "U32" not in o.parts
    a, b = o.sources(2)
    extended = "EX" in o.parts
    combining = o.predicate_source(2)
    below = o.predicate_source(3) if extended else None
    how, joining = o.parts[1], next(p for p in o.parts[2:] if p in ("AND", "OR", "XOR"))
    strict = {"LT": np.less, "LE": np.less, "GT": np.greater, "GE": np.greater}
    full = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal,
            "NE": np.not_equal}

    def run(at):
        x, y = a(at), b(at)
        if signed:
            x, y = as_signed(x), as_signed(y)
        if not extended:
            result = full[how](x, y)
        elif how == "EQ":
            result = (x == y) & below(at)
        elif how == "NE":
            result = (x != y) | below(at)
        else:
            result = np.where(x == y, below(at), strict[how](x, y))
        other = combining(at)
        join = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}[joining]
        o.predicate_out(at, join(result, other), join(~result, other))
        return None

    return run


def minmax(o):
    signed = "U32" not in o.parts
    adds = o.parts[0].startswith("VIADD")
    sources = o.sources(3 if adds else 2)
    least = o.predicate_source(len(sources))
    relu = "RELU" in o.parts
    # ptxas writes them for min(x, y) == y. NVIDIA documents neither them nor those of a maximum.
    says = any(number(name) != 7 for name in o.targets)
    if says and (adds or o.texts[-1] != "PT"):
        raise KeyError("predicates of a maximum")
    if says and relu:  # an H200 writes "yes" for x = 0, which ptxas 13.0 does not expect
        raise KeyError("predicates of a minimum with RELU")

    def run(at):
        values = [source(at) for source in sources]
        x, y = (values[0] + values[1], values[2]) if adds else values
        if signed:
            x, y = as_signed(x), as_signed(y)
        result = np.where(least(at), np.minimum(x, y), np.maximum(x, y))
        if relu:
            result = np.maximum(result, 0)
        if says:
            o.predicate_out(at, *[x >= y] * len(o.targets))
        return [low_word(result.astype(np.int64))]

    return run


def select(o):
    a, b = o.sources(2)
    which = o.predicate_source(2)
    return lambda at: [np.where(which(at), a(at), b(at)).astype(np.uint32)]


def one_source(function):
    def build(o):
        (a,) = o.sources(1)
        return lambda at: [function(a(at), o)]

    return build


def bits_reversed(x, o):
    result = np.zeros_like(x)
    for i in range(32):
        result |= (x >> U32(i) & U32(1)) << U32(31 - i)
    return result


def ones(x, o):
    return np.bitwise_count(x).astype(np.uint32)


def leading_one(x, o):
    at = np.floor(np.log2(np.maximum(x, 1).astype(np.float64))).astype(np.int64)
    found = 31 - at if "SH" in o.parts else at
    return np.where(x == 0, np.int64(0xFFFFFFFF), found).astype(np.uint32)


def magnitude(x, o):
    return np.abs(as_signed(x)).astype(np.uint32)


def move(x, o):
    return x


def zeros(o):
    count = 1 if "32" in o.parts else 2
    if o.texts[1] != "SRZ":
        raise KeyError(o.texts[1])
    return lambda at: [np.zeros(at.count, np.uint32)] * count


def special(o):
    name = o.texts[1]

    def run(at):
        block, threads = at.block, at.threads
        known = {
            "SR_TID.X": lambda: threads, "SR_LANEID": lambda: threads % 32, "SR_CTAID.X": lambda: block.index,
            "SR_CgaCtaId": lambda: 0, "SR_LTMASK": lambda: (1 << (threads % 32)) - 1,
        }
        return [np.broadcast_to(np.asarray(known[name](), dtype=np.int64), (at.count,)).astype(np.uint32)]

    return run


def load_constant(o):
    size = {"U8": 1, "U16": 2, "64": 8}.get(o.parts[-1], 4)
    bank, base, offset = re.fullmatch(r"c\[(0x\w+)\]\[(?:(U?R\w+)\+?)?(-?0x\w+)?\]", o.texts[1]).groups()
    bank, offset = int(bank, 16), int(offset or "0", 16)
    register = o.register(base) if base else None

    def run(at):
        data = at.block.constants[bank]
        place = register(at).astype(np.int64) + offset if register else np.full(at.count, offset)
        if size == 1:
            return [data[place].astype(np.uint32)]
        if size == 2:
            return [data.view(np.uint16)[place // 2].astype(np.uint32)]
        return [data.view(np.uint32)[place // 4 + i] for i in range(size // 4)]

    return run


INTEGERS = {
    "IMAD": imad, "UIMAD": imad, "IADD3": iadd3, "UIADD3": iadd3, "VIADD": iadd3, "UVIADD": iadd3, "IADD": iadd3,
    "LEA": lea, "ULEA": lea, "LOP3": lop3, "ULOP3": lop3, "PLOP3": plop3, "UPLOP3": plop3, "SHF": shf, "USHF": shf,
    "PRMT": prmt, "UPRMT": prmt, "IDP": idp, "ISETP": compare_integers, "UISETP": compare_integers,
    "VIMNMX": minmax, "VIADDMNMX": minmax, "IMNMX": minmax, "SEL": select, "USEL": select,
    "BREV": one_source(bits_reversed), "POPC": one_source(ones), "UPOPC": one_source(ones),
    "FLO": one_source(leading_one), "UFLO": one_source(leading_one), "IABS": one_source(magnitude),
    "MOV": one_source(move), "UMOV": one_source(move), "CS2R": zeros, "S2R": special, "S2UR": special,
    "LDC": load_constant, "ULDC": load_constant, **LANES,
}
NOTHING = {"NOP", "YIELD", "MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL", "DEPBAR", "ENDCOLLECTIVE", "BSSY", "WARPSYNC"}


def make(instruction):
    kind = instruction.opcode.split(".")[0]
    if kind == "BSSY":
        barrier, guard = number(instruction.operands[0]), instruction.guard
        return lambda block, group, warps: block.converge_at(barrier, block.guarded(guard, group))
    if kind in NOTHING:
        return lambda block, group, warps: None
    floating = floats_of(kind)
    o = Operands(instruction, FLOAT if floating else INTEGER)
    compute = (floating or INTEGERS[kind])(o)
    uniform = kind[0] == "U" or kind in ("S2UR", "R2UR", "REDUX", "VOTEU")
    return put(o, compute, uniform, instruction.guard)
