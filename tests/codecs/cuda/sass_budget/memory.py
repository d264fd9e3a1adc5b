# SPDX-License-Identifier: Apache-2.0
"""Memory as a block of threads sees it. Every access is checked, and counted as the hardware would split it."""

import numpy as np

GLOBAL_AT = 0x7F0000000000  # where the arena of global memory begins
SHARED_AT = 0x400  # where a block's shared memory begins, on sm_90
SECTOR = 32  # bytes that DRAM and the L2 cache move at once
BANKS = 32  # of shared memory, 4 bytes wide
WARP = 32


class Fault(Exception):
    """An access that a GPU would refuse."""


class Bytes:
    """Memory from address `begin` on. Reads and writes of 1 to 16 bytes a thread, in 32-bit registers."""

    def __init__(self, begin, data, valid=None):
        self.begin = begin
        self.data = data
        self.valid = valid

    def offsets(self, addresses, size):
        at = addresses.astype(np.int64) - self.begin
        if len(at) == 0:
            return at
        if (at < 0).any() or (at + size > len(self.data)).any():
            raise Fault(f"{size} bytes at {int(addresses.max()):#x} are outside of the memory")
        if (at % size).any():
            raise Fault(f"{size} bytes at an address that is no multiple of it")
        if self.valid is not None and not (self.valid[at].all() and self.valid[at + size - 1].all()):
            raise Fault(f"{size} bytes at {int(addresses[0]):#x} belong to no buffer")
        return at

    def load(self, addresses, size, signed=False):
        """Lists of 32-bit numbers: one for up to 4 bytes, else one for each 4."""
        at = self.offsets(addresses, size)
        if size >= 4:
            words = self.data.view(np.uint32)
            return [words[at // 4 + i] for i in range(size // 4)]
        if size == 2:
            value = self.data.view(np.uint16)[at // 2]
            return [value.astype(np.int16).astype(np.int32).view(np.uint32) if signed else value.astype(np.uint32)]
        value = self.data[at]
        return [value.astype(np.int8).astype(np.int32).view(np.uint32) if signed else value.astype(np.uint32)]

    def store(self, addresses, size, values):
        at = self.offsets(addresses, size)
        if size >= 4:
            words = self.data.view(np.uint32)
            for i in range(size // 4):
                words[at // 4 + i] = values[i]
        elif size == 2:
            self.data.view(np.uint16)[at // 2] = (values[0] & 0xFFFF).astype(np.uint16)
        else:
            self.data[at] = (values[0] & 0xFF).astype(np.uint8)


class Traffic:
    """What the memory accesses of a launch come to."""

    def __init__(self, arena_bytes):
        sectors = arena_bytes // SECTOR + 1
        self.read = np.zeros(sectors, bool)
        self.written = np.zeros(sectors, bool)
        self.requested = 0  # sectors of all requests: what the L1 cache is asked for
        self.widths = {}  # "LDG 16" -> lane accesses
        self.shared_cycles = 0
        self.shared_ideal = 0

    def count(self, name, size, lanes):
        key = f"{name} {size}"
        self.widths[key] = self.widths.get(key, 0) + lanes

    def note_global(self, addresses, size, warps, writes):
        at = (addresses.astype(np.int64) - GLOBAL_AT) // SECTOR
        (self.written if writes else self.read)[at] = True
        self.requested += len(np.unique(warps.astype(np.int64) << 40 | at))

    def note_shared(self, addresses, size, threads):
        """Cycles by bank conflicts: a bank gives one word a cycle, to any number of threads. Wide accesses
        are served by halves or quarters of a warp."""
        part = max(1, size // 4)
        groups = threads // (WARP // part)
        words = addresses.astype(np.int64) // 4
        wide = np.concatenate([words + i for i in range(part)])
        unique = np.unique(np.tile(groups.astype(np.int64), part) << 32 | wide)
        banks = (unique >> 32) * BANKS + (unique & 0xFFFFFFFF) % BANKS
        group, load = np.unique(banks, return_counts=True)
        worst = {}
        for g, n in zip(group // BANKS, load):
            worst[g] = max(worst.get(g, 0), n)
        self.shared_cycles += int(sum(worst.values()))
        self.shared_ideal += len(worst)
