# SPDX-License-Identifier: Apache-2.0
"""Turns an instruction's operands as nvdisasm writes them into functions that read and write registers."""

import re
import struct

import numpy as np

INTEGER, FLOAT = range(2)
NO_TARGET = {"ISETP", "FSETP", "DSETP", "UISETP", "PLOP3", "UPLOP3", "R2P", "VOTE", "VOTEU", "SHFL", "FCHK", "HSETP2"}


def number(name):
    """"R12" -> 12, "UP3" -> 3, "B1" -> 1; RZ and URZ are 255 and 63, PT and UPT 7."""
    name = name.split(".")[0].lstrip("!-~|").rstrip("|")
    special = {"RZ": 255, "URZ": 63, "PT": 7, "UPT": 7}
    return special[name] if name in special else int(re.fullmatch(r"[A-Z]+(\d+)", name).group(1))


def is_predicate(text):
    return re.fullmatch(r"!?U?P(\d|T)", text) is not None


class At:
    """Where an instruction runs: threads for vector instructions, warps for uniform ones."""

    def __init__(self, block, threads, warps, uniform, group):
        self.block, self.threads, self.warps, self.uniform = block, threads, warps, uniform
        self.all_threads = group
        self.count = len(warps) if uniform else len(threads)

    def vector(self):
        return At(self.block, self.all_threads, self.warps, False, self.all_threads)

    def first_of_warps(self, row):
        first = np.searchsorted(self.block.warp_of[self.all_threads], self.warps)
        return row[self.all_threads[first]]


class Operands:
    """The operands of one instruction. Sources are counted after targets."""

    def __init__(self, instruction, kind):
        self.opcode = instruction.opcode
        self.parts = instruction.opcode.split(".")
        self.texts = [text.replace(".reuse", "") for text in instruction.operands]
        self.kind = kind
        self.targets = []  # predicates that are written besides the register, or alone
        at = 0
        self.target = None
        if self.parts[0] not in NO_TARGET:
            if is_predicate(self.texts[0]):  # LOP3.LUT P0, RZ, ...
                self.targets.append(self.texts[0])
                at = 1
            self.target = self.texts[at]
            at += 1
        while at < len(self.texts) and is_predicate(self.texts[at]) and self.writes_more(at):
            self.targets.append(self.texts[at])
            at += 1
        self.begin = at

    def writes_more(self, at):
        """Whether the predicate at operand `at` is a target: those before the first other source."""
        kind = self.parts[0]
        if kind in ("ISETP", "UISETP", "FSETP", "DSETP", "PLOP3", "UPLOP3"):
            return at < 2
        if kind == "FCHK":
            return at < 1
        if kind in ("SEL", "USEL", "FSEL", "R2P", "P2R", "VOTE", "VOTEU", "SHFL"):
            return False
        return True

    # --- sources ---

    def source_text(self, i):
        return self.read(self.texts[i])

    def source(self, i):
        return self.read(self.texts[self.begin + i])

    def sources(self, count):
        return [self.source(i) for i in range(count)]

    def floats(self, count):
        return [self.read_float(self.texts[self.begin + i]) for i in range(count)]

    def immediate(self, i):
        return int(self.texts[self.begin + i], 16)

    def register(self, name):
        r = number(name)
        if name.startswith("UR"):
            return lambda at: at.block.U[r][at.warps] if at.uniform else at.block.U[r][at.block.warp_of[at.threads]]
        return lambda at: at.block.R[r][at.threads]

    def raw(self, text):
        """The word that a text without signs stands for."""
        if match := re.fullmatch(r"c\[(0x\w+)\]\[(0x\w+)\]", text):
            bank, offset = (int(part, 16) for part in match.groups())
            return lambda at: np.full(at.count, at.block.constants[bank].view(np.uint32)[offset // 4], np.uint32)
        if re.fullmatch(r"U?R(\d+|Z)(\.\w+)*", text):
            return self.register(text)
        word = np.uint32(int(text, 0) & 0xFFFFFFFF)
        return lambda at: np.full(at.count, word, np.uint32)

    def read(self, text):
        """An integer source with its sign: "-R4", "~UR6", "-0x8"."""
        if re.fullmatch(r"-?0x[0-9a-f]+", text):
            return self.raw(text)
        value = self.raw(text.lstrip("-~"))
        if text[0] == "-":
            return lambda at: (-value(at).astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
        if text[0] == "~":
            return lambda at: ~value(at)
        return value

    def sums(self, most):
        """Sources of an addition, as non-negative int64: -x as ~x + 1 with its carry."""
        texts = [t for t in self.texts[self.begin : self.begin + most] if not is_predicate(t)]
        return [self.addend(text) for text in texts]

    def addend(self, text):
        if text[0] == "-" and not re.fullmatch(r"-0x[0-9a-f]+", text):
            value = self.raw(text[1:])
            return lambda at: (~value(at)).astype(np.int64) + 1
        value = self.read(text)
        return lambda at: value(at).astype(np.int64)

    def pair_of(self, i):
        """The two words of the 64-bit source `i`."""
        text = self.texts[self.begin + i]
        if re.fullmatch(r"U?R\d+(\.\w+)*", text):
            prefix, r = ("UR" if text[0] == "U" else "R"), number(text)
            return self.register(f"{prefix}{r}"), self.register(f"{prefix}{r + 1}")
        if match := re.fullmatch(r"c\[(0x\w+)\]\[(0x\w+)\]", text):
            bank, offset = match.groups()
            return self.raw(text), self.raw(f"c[{bank}][{int(offset, 16) + 4:#x}]")
        if text in ("RZ", "URZ"):
            return self.raw(text), self.raw(text)
        low = self.read(text)
        return low, lambda at: ((low(at).view(np.int32)) >> 31).view(np.uint32)

    def read_float(self, text):
        """A float32 source with its sign: "-R4", "|R2|", "1.5", "+INF"."""
        plain = text.lstrip("-+").strip("|")
        if re.fullmatch(r"(c\[.*\]\[.*\])|(U?R(\d+|Z)(\.\w+)*)", plain):
            word = self.raw(plain)
            value = lambda at: word(at).view(np.float32)
        elif plain in ("INF", "QNAN"):
            constant = np.float32(np.inf if plain == "INF" else np.nan)
            value = lambda at: np.full(at.count, constant, np.float32)
        elif plain.startswith("0x"):
            constant = np.frombuffer(struct.pack("<I", int(plain, 16)), np.float32)[0]
            value = lambda at: np.full(at.count, constant, np.float32)
        else:
            constant = np.float32(float(plain))
            value = lambda at: np.full(at.count, constant, np.float32)
        if "|" in text:
            bare = value
            value = lambda at: np.abs(bare(at))
        if text[0] == "-":
            positive = value
            return lambda at: -positive(at)
        return value

    # --- predicates ---

    def predicate_text(self, text):
        p, negated = number(text), text[0] == "!"
        uniform = "U" in text

        def read(at):
            if uniform:
                bits = at.block.UP[p][at.warps] if at.uniform else at.block.UP[p][at.block.warp_of[at.threads]]
            else:
                bits = at.block.P[p][at.threads]
            return ~bits if negated else bits

        return read

    def predicate_source(self, i):
        return self.predicate_text(self.texts[self.begin + i])

    def carries_in(self):
        names = [t for t in self.texts[self.begin :] if is_predicate(t)]
        readers = [self.predicate_text(name) for name in names] or [lambda at: np.zeros(at.count, bool)]
        as_numbers = [lambda at, read=read: read(at).astype(np.int64) for read in readers]
        return as_numbers[0], as_numbers[1] if len(as_numbers) > 1 else (lambda at: np.int64(0))

    def carry_in(self):
        if "X" not in self.parts:
            return lambda at: np.uint64(0)
        first, _ = self.carries_in()
        return lambda at: first(at).astype(np.uint64)

    def carry_out(self, at, *bits):
        self.predicate_out(at, *bits)

    def predicate_out(self, at, *bits):
        for name, value in zip(self.targets, bits):
            put_predicate(at, name, value)


def put_predicate(at, name, value):
    p = number(name)
    if p == 7:
        return
    if name.startswith("UP"):
        at.block.UP[p][at.warps] = value
    else:
        at.block.P[p][at.threads] = value


def put(o, compute, uniform, guard):
    """The function that runs an instruction and stores what it computes in its target."""
    target = None if o.target is None else number(o.target)
    to_uniform = o.target is not None and o.target.startswith("UR")
    discard = target is None or target == (63 if to_uniform else 255)

    def run(block, group, warps):
        threads = group
        if uniform and guard:
            name = guard.lstrip("!")
            bits = block.UP[number(name)][warps] if name[0] == "U" else block.P[number(name)][group]
            bits = ~bits if guard[0] == "!" else bits
            warps = warps[bits] if name[0] == "U" else np.unique(block.warp_of[group[bits]])
            threads = group[np.isin(block.warp_of[group], warps)]
        elif guard:
            threads = block.guarded(guard, group)
        if len(threads) == 0:
            return
        at = At(block, threads, warps, uniform, threads)
        if not uniform and guard:
            at.warps = np.unique(block.warp_of[threads])
        words = compute(at)
        if words is None or discard:
            return
        for i, word in enumerate(words):
            if to_uniform:
                block.U[target + i][at.warps] = word
            else:
                block.R[target + i][threads] = word

    return run
