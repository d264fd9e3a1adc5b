# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds on the host of an allocation from the cache and its free, without Python between them:
tests/bench/device_allocator_cost.cpp does the loop."""

import argparse
import ctypes
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402

import cinch_here  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("library")
parser.add_argument("--pairs", type=int, default=200000)
parser.add_argument("--fake", action="store_true")
options = parser.parse_args()
torch.empty(1, device="cuda")
measure = ctypes.CDLL(options.library).device_allocator_cost
measure.argtypes, measure.restype = (ctypes.c_size_t, ctypes.c_size_t), ctypes.c_double
found = {bytes: measure(bytes, options.pairs) for bytes in (1000, 256 << 10, 3 << 20, 20 << 20)}
if any(ns < 0 for ns in found.values()):
    sys.exit("an allocation failed")
print(json.dumps({"p50_ns": found, "cuda_allocator": cinch_here.allocator() is not None}))
