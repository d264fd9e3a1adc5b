# SPDX-License-Identifier: Apache-2.0
"""Floating-point instructions: float32, packed 16-bit floats, and conversions."""

import numpy as np

np.seterr(all="ignore")


def fused(a, b, c):
    """a * b + c, rounded once: rounded to odd in float64, where a * b is exact, and then to float32."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, (bits + toward).view(np.float64), total).astype(np.float32)


def words(x):
    return np.asarray(x, np.float32).view(np.uint32)


def flushed(x, o):
    if "FTZ" not in o.parts:
        return x
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def saturated(x, o):
    """From 0 to 1, and 0 for NaN."""
    return np.where(x > 0, np.minimum(x, np.float32(1)), np.float32(0)) if "SAT" in o.parts else x


def check_rounding(o):
    if any(part in ("RM", "RP", "RZ") for part in o.parts):
        raise KeyError(o.opcode)


def fadd(o):
    check_rounding(o)
    a, b = o.floats(2)
    return lambda at: [words(saturated(flushed(flushed(a(at), o) + flushed(b(at), o), o), o))]


def fmul(o):
    check_rounding(o)
    a, b = o.floats(2)
    return lambda at: [words(saturated(flushed(flushed(a(at), o) * flushed(b(at), o), o), o))]


def ffma(o):
    """.RM, .RP and .RZ occur in CUDA's reciprocals of subnormal numbers only, which are rounded to nearest here."""
    a, b, c = o.floats(3)
    return lambda at: [words(fused(a(at), b(at), c(at)))]


def fmnmx(o):
    a, b = o.floats(2)
    least = o.predicate_source(2)
    nan = "NAN" in o.parts

    def run(at):
        x, y = np.broadcast_arrays(a(at), b(at))
        # -0 counts as less than +0: compare the sign too.
        less = (x < y) | ((x == y) & np.signbit(x) & ~np.signbit(y))
        result = np.where(least(at) == less, x, y)
        either = np.where(np.isnan(x), y, np.where(np.isnan(y), x, result))
        if nan:
            either = np.where(np.isnan(x) | np.isnan(y), np.frombuffer(b"\xff\xff\xff\x7f", np.float32)[0], either)
        return [words(either)]

    return run


def fsel(o):
    """Chooses between words: constants are written as floats."""
    a, b = o.floats(2)
    which = o.predicate_source(2)
    return lambda at: [np.where(which(at), words(a(at)), words(b(at)))]


COMPARE = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal,
           "NE": lambda x, y: (x < y) | (x > y)}


def fsetp(o):
    a, b = o.floats(2)
    other = o.predicate_source(2)
    how = o.parts[1]
    joining = next(p for p in o.parts if p in ("AND", "OR", "XOR"))
    join = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}[joining]

    def run(at):
        x, y = flushed(a(at), o), flushed(b(at), o)
        unordered = np.isnan(x) | np.isnan(y)
        if how == "NAN":
            result = unordered
        elif how == "NUM":
            result = ~unordered
        else:
            result = COMPARE[how[:2]](x, y) & ~unordered | (unordered if how.endswith("U") else False)
        o.predicate_out(at, join(result, other(at)), join(~result, other(at)))
        return None

    return run


def fchk(o):
    """Whether a division needs the slow way: it does near the ends of float32's range."""
    a, b = o.floats(2)

    def run(at):
        def odd(x):
            e = (words(x) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
            return (e < 40) | (e > 214)

        o.predicate_out(at, odd(a(at)) & (a(at) != 0) | odd(b(at)))
        return None

    return run


def mufu(o):
    (a,) = o.floats(1)
    exact = {"RCP": lambda x: 1 / x, "RSQ": lambda x: 1 / np.sqrt(x), "SQRT": np.sqrt}[o.parts[1]]
    return lambda at: [words(exact(a(at).astype(np.float64)).astype(np.float32))]


def part_of(text):
    """The shift and width of a source like R4.B1 or R4.H0_H0's part."""
    for i in range(4):
        if text.endswith(f".B{i}"):
            return 8 * i, 0xFF
    return (16, 0xFFFF) if text.endswith(".H1") else (0, 0xFFFFFFFF)


def i2f(o):
    source = o.source(0)
    shift, mask = part_of(o.texts[-1])
    wide = "U64" in o.parts or "S64" in o.parts
    pair = o.pair_of(0) if wide else None
    signed = "S64" in o.parts or not any(p in ("U8", "U16", "U32", "U64") for p in o.parts)

    def run(at):
        if wide:
            value = pair[0](at).astype(np.uint64) | pair[1](at).astype(np.uint64) << np.uint64(32)
            value = value.view(np.int64) if signed else value
        else:
            value = source(at) >> np.uint32(shift) & np.uint32(mask)
            value = value.view(np.int32) if signed else value
        result = value.astype(np.longdouble).astype(np.float32)
        if "RP" in o.parts:  # rounded up
            result = np.where(result.astype(np.longdouble) < value.astype(np.longdouble),
                              np.nextafter(result, np.float32(np.inf)), result)
        return [words(result)]

    return run


def f2i(o):
    (a,) = o.floats(1)
    truncates = "TRUNC" in o.parts
    bits, signed = (64, False) if "U64" in o.parts else (32, "U32" not in o.parts)

    def run(at):
        x = a(at).astype(np.longdouble)
        x = np.trunc(x) if truncates else np.rint(x)
        low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
        x = np.where(np.isnan(x), 0, np.clip(x, np.longdouble(low), np.longdouble(2) ** bits - 1 if not signed else high))
        if bits == 64:
            whole = x.astype(np.uint64)
            return [(whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)]
        return [(x.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)]

    return run


def f2f(o):
    if "F64" in o.parts[1:2]:  # F2F.F64.F32
        (a,) = o.floats(1)

        def run(at):
            whole = a(at).astype(np.float64).view(np.uint64)
            return [(whole & np.uint64(0xFFFFFFFF)).astype(np.uint32), (whole >> np.uint64(32)).astype(np.uint32)]

        return run
    low, high = o.pair_of(0)

    def run(at):
        whole = low(at).astype(np.uint64) | high(at).astype(np.uint64) << np.uint64(32)
        return [words(whole.view(np.float64).astype(np.float32))]

    return run


def frnd(o):
    (a,) = o.floats(1)
    function = {"FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}.get(o.parts[-1], np.rint)
    return lambda at: [words(function(a(at)))]


def bf16_of(x):
    """Nearest bfloat16, ties to even; NaN as the hardware gives it."""
    bits = words(x).astype(np.uint64)
    rounded = (bits + np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(x), np.uint64(0x7FFF), rounded).astype(np.uint32)


def f16_of(x):
    return np.where(np.isnan(x), np.uint32(0x7FFF), x.astype(np.float16).view(np.uint16).astype(np.uint32))


def f2fp(o):
    """Packs two floats: the first source into the upper half."""
    a, b = o.floats(2)
    convert = bf16_of if "BF16" in o.parts else f16_of
    if "PACK_AB" not in o.parts or "RZ" in o.parts:
        raise KeyError(o.opcode)
    return lambda at: [convert(a(at)) << np.uint32(16) | convert(b(at))]


def halves_of(text, o):
    """The two numbers of a packed source, as float32: (low, high)."""
    bf16 = "BF16_V2" in o.parts or "BF16" in o.parts
    plain = text.lstrip("-").strip("|").split(".")[0]
    swizzle = next((p for p in text.strip("|").split(".")[1:] if p.startswith("H")), "H1_H0")
    if not plain.startswith(("R", "UR", "c[")):
        raise KeyError(text)
    word = o.raw(plain)

    def half(at, upper):
        bits = word(at) >> np.uint32(16) if upper else word(at) & np.uint32(0xFFFF)
        if bf16:
            value = (bits << np.uint32(16)).view(np.float32)
        else:
            value = bits.astype(np.uint16).view(np.float16).astype(np.float32)
        if "|" in text:
            value = np.abs(value)
        return -value if text[0] == "-" else value

    low = {"H1_H0": False, "H0_H0": False, "H1_H1": True}[swizzle]
    high = {"H1_H0": True, "H0_H0": False, "H1_H1": True}[swizzle]
    return lambda at: (half(at, low), half(at, high))


def constant_halves(high, low):
    """Two constants, as nvdisasm writes them."""
    return lambda at: tuple(np.full(at.count, np.float32(float(text))) for text in (low, high))


def hmnmx2(o):
    """HMNMX2 of two sources, VHMNMX of three, for each half of a register."""
    texts = o.texts[o.begin : -1]
    sources = []
    while texts:
        if "R" in texts[0]:
            sources.append(halves_of(texts.pop(0), o))
        else:
            sources.append(constant_halves(texts.pop(0), texts.pop(0)))
    least = o.predicate_text(o.texts[-1])
    nan = "NAN" in o.parts
    pack = bf16_of if "BF16_V2" in o.parts else f16_of

    def chosen(x, y, smaller):
        less = (x < y) | ((x == y) & np.signbit(x) & ~np.signbit(y))
        number = np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.where(smaller == less, x, y)))
        return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), number) if nan else number

    def run(at):
        smaller = least(at)
        pairs = [source(at) for source in sources]
        low, high = pairs[0]
        for other in pairs[1:]:
            low, high = chosen(low, other[0], smaller), chosen(high, other[1], smaller)
        return [pack(low) | pack(high) << np.uint32(16)]

    return run


def hadd2(o):
    """HADD2.F32: the sum of two 16-bit floats as a float32, which is how one is widened."""
    if "F32" not in o.parts:
        raise KeyError(o.opcode)
    texts = o.texts[o.begin : o.begin + 2]
    b = halves_of(texts[1], o)
    if texts[0] not in ("-RZ", "RZ"):
        raise KeyError(texts[0])
    return lambda at: [words(b(at)[0])]


def hfma2(o):
    """Only as a way to write a constant: -0 * 0 + {high, low}."""
    if o.texts[1:3] != ["-RZ", "RZ"]:
        raise KeyError(", ".join(o.texts))
    high, low = (int(np.float16(float(text)).view(np.uint16)) for text in o.texts[3:5])
    word = np.uint32(high << 16 | low)
    return lambda at: [np.full(at.count, word, np.uint32)]


FLOATS = {
    "FADD": fadd, "FMUL": fmul, "FFMA": ffma, "FMNMX": fmnmx, "FSEL": fsel, "FSETP": fsetp, "FCHK": fchk, "MUFU": mufu,
    "I2F": i2f, "I2FP": i2f, "F2I": f2i, "F2F": f2f, "FRND": frnd, "F2FP": f2fp, "HMNMX2": hmnmx2, "VHMNMX": hmnmx2, "HADD2": hadd2,
    "HFMA2": hfma2,
}


def floats_of(kind):
    return FLOATS.get(kind)
