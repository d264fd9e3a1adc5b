# SPDX-License-Identifier: Apache-2.0
"""What Cinch's CUDA allocator says of itself, in a program that runs under it."""

import ctypes
import json
import os
import pathlib


def figures(device: int = 0) -> dict | None:
    """A device's figures; None when its memory is not Cinch's."""
    core = os.environ.get("E2E_CORE")
    if core is None:
        return None
    path = pathlib.Path(core).resolve()
    path = path.with_name(path.name.replace("libcinch_torch-", "libcinch_torch_cuda-"))
    query = ctypes.CDLL(str(path)).cinch_cuda_allocator_json
    query.argtypes, query.restype = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    buffer = ctypes.create_string_buffer(4096)
    query(device, buffer, len(buffer))
    found = json.loads(buffer.value)
    if found is not None:
        assert found["fault"] == "", found["fault"]  # all invariants hold
    return found
