# SPDX-License-Identifier: Apache-2.0
"""Asks the Cinch in this very process, if there is one."""

import ctypes
import functools
import json
import os


@functools.cache
def _library(prefix: str) -> ctypes.CDLL | None:
    """The loaded library whose file's name begins so."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith(prefix) and ".so" in path:
                return ctypes.CDLL(path)
    return None


def report() -> dict | None:
    """The report as it would be written now; None without Cinch."""
    core = _library("libcinch_torch-")
    if core is None:
        return None
    query = core.cinch_report_json
    query.argtypes, query.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    buffer = ctypes.create_string_buffer(query(None, 0) + 65536)
    query(buffer, len(buffer))
    return json.loads(buffer.value)


def stash_bytes() -> int:
    """What the stash holds; 0 without Cinch."""
    now = report()
    return 0 if now is None else now["stash_bytes_at_exit"]


def taken() -> int:
    """How many storages Cinch has taken so far; 0 without Cinch."""
    now = report()
    return 0 if now is None else sum(op["count"] for op in now["ops"])


def allocator(device: int = 0) -> dict | None:
    """The figures of Cinch's CUDA allocator; None where PyTorch's own is in place."""
    library = _library("libcinch_torch_cuda-")
    if library is None:
        return None
    query = library.cinch_cuda_allocator_json
    query.argtypes, query.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    buffer = ctypes.create_string_buffer(65536)
    query(device, buffer, len(buffer))
    return json.loads(buffer.value)
