#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ways of holding exponents make of activations, as ratios: why exponent_pack is as it is.

    .venv/bin/python tests/bench/dump_activations.py --steps 8 --batch 16 --context 128 --megabytes 4
    .venv/bin/python tests/bench/exponent_codes.py [build/activations]

Mantissas and signs are held as they are, zeros are left out by a mask. Per block of 4096 elements,
exponents are held

    huffman    by a Huffman code of the block's own, whose table costs 4 bits a symbol
    window     as exponent_pack has them: codes of equal bits, and a byte for each that they don't tell
    sampled    the same, bits and base chosen by an eighth of the elements
    1024       as `window`, in blocks of 1024
    two        as `window`, but what the codes don't tell is held in codes again
    by 32      as distances from the least of 32 neighbours, in as many bits as these need

float32 activations are also looked at in bfloat16. The last column is how many bits `window` takes
an exponent.
"""

import heapq
import json
import pathlib
import sys

import numpy as np

BLOCK, MOST_BITS = 4096, 7
HEADER = 128  # bits of a block: where it begins, and how it is held


def counts_below(tops):
    return np.concatenate([[0], np.cumsum(np.bincount(tops, minlength=256))])


def best_codes(tops):
    """(bits that hold all tops, bits of a code, base)"""
    below, best = counts_below(tops), (8 * len(tops), 0, 0)
    for bits in range(1, MOST_BITS + 1):
        window = 2**bits - 1
        inside = below[window:] - below[: 257 - window]
        base = int(inside.argmax())
        best = min(best, (bits * len(tops) + 8 * (len(tops) - int(inside[base])), bits, base))
    return best


def window_bits(tops, sample=None):
    _, bits, base = best_codes(tops if sample is None else sample)
    outside = np.count_nonzero((tops < base) | (tops >= base + 2**bits - 1))
    return bits * len(tops) + 8 * outside


def two_level_bits(tops):
    best = 8 * len(tops)
    for bits in range(1, 5):
        window = 2**bits - 1
        below = counts_below(tops)
        base = int((below[window:] - below[: 257 - window]).argmax())
        outside = tops[(tops < base) | (tops >= base + window)]
        best = min(best, bits * len(tops) + window_bits(outside))
    return best


def neighbour_bits(tops):
    whole = len(tops) // 32 * 32
    groups = tops[:whole].reshape(-1, 32).astype(int)
    width = np.ceil(np.log2(np.ptp(groups, axis=1) + 1)).astype(int)
    return int((32 * width + 12).sum()) + 8 * (len(tops) - whole)


def huffman_bits(tops):
    heap = [int(n) for n in np.bincount(tops) if n > 0]
    table, bits = 4 * len(heap), len(tops) if len(heap) == 1 else 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        bits += both
        heapq.heappush(heap, both)
    return bits + table


def sampled(elements):
    stretch = np.arange(elements) // 32
    return (stretch + stretch // 8) % 8 == 0


def quarters_bits(tops, held):
    ends = np.cumsum([quarter.sum() for quarter in np.split(held, range(1024, len(held), 1024))])
    quarters = np.split(tops, ends[:-1])
    return sum(window_bits(quarter) for quarter in quarters) + HEADER * (len(quarters) - 1)


WAYS = {
    "huffman": lambda tops, held: huffman_bits(tops),
    "window": lambda tops, held: window_bits(tops),
    "sampled": lambda tops, held: window_bits(tops, tops[sampled(len(held))[held]]),
    "1024": quarters_bits,
    "two": lambda tops, held: two_level_bits(tops),
    "by 32": lambda tops, held: neighbour_bits(tops),
}


def row(name, patterns, exponent_shift):
    """Prints one tensor's ratios. Patterns are unsigned integers as wide as the elements."""
    tops = (patterns >> exponent_shift & 255).astype(np.uint8)
    held = patterns != 0
    rest = 8 * (patterns.itemsize - 1)
    taken, fixed = dict.fromkeys(WAYS, 0), 0
    for begin in range(0, len(patterns), BLOCK):
        of = slice(begin, begin + BLOCK)
        fixed += HEADER + rest * int(held[of].sum()) + (0 if held[of].all() else len(held[of]))
        for way, bits in WAYS.items():
            taken[way] += bits(tops[of][held[of]], held[of]) if held[of].any() else 0
    raw = 8 * patterns.nbytes
    ratios = "".join(f"{raw / (fixed + taken[way]):9.3f}" for way in WAYS)
    print(f"{name:36}{1 - held.mean():7.2f}{ratios}{taken['window'] / max(1, held.sum()):9.2f}")


def main(folder):
    print(f"{'':36}{'zeros':>7}{''.join(f'{way:>9}' for way in WAYS)}{'bits':>9}")
    for tensor in json.loads((folder / "index.json").read_text())["tensors"]:
        if tensor["type"] == "bfloat16":
            row(tensor["name"], np.fromfile(folder / tensor["file"], np.uint16), 7)
        elif tensor["type"] == "float32":
            wide = np.fromfile(folder / tensor["file"], np.uint32)
            row(tensor["name"], wide, 23)
            nearest = (wide.astype(np.uint64) + 0x7FFF + (wide >> 16 & 1)) >> 16
            row(tensor["name"] + " as bfloat16", nearest.astype(np.uint16), 7)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/activations"))
