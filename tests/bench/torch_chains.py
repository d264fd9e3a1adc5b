#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of quantization as chains of torch operators, beside a copy of the same tensor.

    .venv/bin/python tests/bench/torch_chains.py [--megabytes 64] [--threads 1 2] [--json FILE]

What ActNN's and DIVISION's public code does to a saved tensor, written anew in plain torch for the
CPU; the originals leave the quantizing and packing to CUDA kernels of their own. The data are those
shapes of codec_bench's random cases that the two take, and the JSON is laid out like codec_bench's,
so render_codec_bench.py can show both in one table.

memcpy is `copy_` into a tensor that is kept. glibc's malloc is told not to give freed memory back, as
a caching allocator would: otherwise half the time of a chain would be page faults. The shortest of
several times counts, copy, pack and unpack taking turns.
"""

import argparse
import ctypes
import json
import re
import time

import torch
import torch.nn.functional as F


def keep_freed_memory():
    libc = ctypes.CDLL(None)
    trim_threshold, mmap_max = -1, -4
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


def pack_bits(codes, bits):
    """uint8 codes below 2**bits, 8 / bits of them a byte, lowest bits first."""
    per_byte = 8 // bits
    codes = F.pad(codes.flatten(), (0, -codes.numel() % per_byte)).view(-1, per_byte)
    packed = codes[:, 0].clone()
    for i in range(1, per_byte):
        packed |= codes[:, i] << (bits * i)
    return packed


def unpack_bits(packed, bits, count):
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8)
    return ((packed.unsqueeze(1) >> shifts) & (2**bits - 1)).flatten()[:count]


def quantize(values, bits):
    """Stochastic codes of `values`' last dimension, with minimum and step in bfloat16."""
    low, high = torch.aminmax(values, dim=-1, keepdim=True)
    step = (high - low) / (2**bits - 1)
    codes = (values - low) / step.clamp_min(1e-30)
    codes = codes.add_(torch.rand_like(codes)).floor_().clamp_(0, 2**bits - 1)
    return pack_bits(codes.to(torch.uint8), bits), low.bfloat16(), step.bfloat16()


def dequantize(packed, low, step, bits, count):
    codes = unpack_bits(packed, bits, count).view(*low.shape[:-1], -1)
    return codes * step.float() + low.float()


class ActNN:
    """Each sample flattened, filled up to whole groups of 256, a range for each group."""

    group = 256

    def __init__(self, bits):
        self.bits = bits
        self.name = f"torch_actnn_b{bits}"

    def pack(self, x):
        flat = x.flatten(1)
        flat = F.pad(flat, (0, -flat.shape[1] % self.group)) if flat.shape[1] % self.group else flat
        return quantize(flat.view(x.shape[0], -1, self.group), self.bits)

    def unpack(self, packed, shape):
        codes, low, step = packed
        values = dequantize(codes, low, step, self.bits, low.numel() * self.group)
        return values.view(shape[0], -1)[:, : shape[1:].numel()].reshape(shape)


class Division:
    """Block means in bfloat16, the rest of each plane (or row) quantized with a range of its own."""

    block = 8

    def __init__(self, bits):
        self.bits = bits
        self.name = f"torch_division_b{bits}"

    def _spread(self, means, shape):
        return F.interpolate(means.float(), size=tuple(shape[2:]), mode="nearest")

    def pack(self, x):
        block = min(self.block, x.shape[-1])
        pool = F.avg_pool2d if x.dim() == 4 else F.avg_pool1d
        means = pool(x, block).bfloat16()
        rest = x - self._spread(means, x.shape)
        return means, *quantize(rest.flatten(2), self.bits)

    def unpack(self, packed, shape):
        means, codes, low, step = packed
        rest = dequantize(codes, low, step, self.bits, shape.numel())
        return rest.view(shape) + self._spread(means, shape)


def cases(megabytes):
    """(name, shape, chains): names are codec_bench's, shapes (N, 64, H, W) and (1, rows, features)."""
    elements = (megabytes << 20) // 4
    for side in (7, 14, 28, 56, 112):
        samples = max(1, elements // (64 * side * side))
        chains = [ActNN(2), Division(2)] + ([ActNN(4), Division(4)] if side == 56 else [])
        yield f"f32_{side}x{side}", (samples, 64, side, side), chains
    for width in (256, 768, 3072):
        chains = [ActNN(2), Division(2)] + ([ActNN(4), Division(4)] if width == 768 else [])
        yield f"f32_row{width}", (1, max(1, elements // width), width), chains


def seconds(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def measure(chain, x, target, budget):
    """One benchmark of the JSON, without its name."""
    copies, packs, unpacks = [], [], []
    while len(packs) < 3 or sum(packs) + sum(unpacks) < budget:
        elapsed, _ = seconds(lambda: target.copy_(x))
        copies.append(elapsed)
        elapsed, packed = seconds(lambda: chain.pack(x))
        packs.append(elapsed)
        elapsed, decoded = seconds(lambda: chain.unpack(packed, x.shape))
        unpacks.append(elapsed)
    raw = x.numel() * x.element_size()
    stored = sum(part.numel() * part.element_size() for part in packed)
    difference = decoded - x
    return {
        "memcpy_GBps": raw / min(copies) * 1e-9,
        "encode_GBps": raw / min(packs) * 1e-9,
        "decode_GBps": raw / min(unpacks) * 1e-9,
        "encode_vs_memcpy": min(copies) / min(packs),
        "decode_vs_memcpy": min(copies) / min(unpacks),
        "compression_ratio": raw / stored,
        "relative_error": (difference.norm() / x.norm()).item(),
        "max_error": difference.abs().max().item(),
        "raw_bytes": raw,
        "rounds": len(packs),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0.5, help="time to pack and unpack in, each case")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--filter", default="", help="only cases whose name this regular expression finds")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()

    keep_freed_memory()
    torch.manual_seed(0)
    results = []
    print(f"{'':48} {'memcpy':>7} {'pack':>14} {'unpack':>14} {'ratio':>6} {'error':>6}   (GB/s, x memcpy)")
    for data, shape, chains in cases(options.megabytes):
        names = {f"random/{data}/{c.name}/threads:{n}": (c, n) for c in chains for n in options.threads}
        names = {name: run for name, run in names.items() if re.search(options.filter, name)}
        if not names:
            continue
        x = torch.randn(shape)
        target = torch.empty_like(x)
        for name, (chain, threads) in names.items():
            torch.set_num_threads(threads)
            figures = measure(chain, x, target, options.seconds)
            results.append({"name": name, **figures})
            print(
                f"{name:48} {figures['memcpy_GBps']:7.2f}"
                f" {figures['encode_GBps']:7.3f} ({figures['encode_vs_memcpy']:.2f})"
                f" {figures['decode_GBps']:7.3f} ({figures['decode_vs_memcpy']:.2f})"
                f" {figures['compression_ratio']:6.2f} {figures['relative_error']:6.3f}",
                flush=True,
            )
    if options.json:
        context = {"executable": "torch_chains.py", "torch": torch.__version__, "megabytes": str(options.megabytes)}
        with open(options.json, "w") as file:
            json.dump({"context": context, "benchmarks": results}, file, indent=1)


if __name__ == "__main__":
    main()
