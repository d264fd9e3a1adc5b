# SPDX-License-Identifier: Apache-2.0
"""Asks the Cinch in this very process what it holds. Without the preload every answer is None."""

import ctypes
import json
import os
import time


def report() -> dict | None:
    """The report as it would be written now."""
    core = os.environ.get("E2E_CORE")
    if core is None:
        return None
    query = ctypes.CDLL(core).cinch_report_json
    query.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    query.restype = ctypes.c_size_t
    capacity = query(None, 0) + 65536
    buffer = ctypes.create_string_buffer(capacity)
    needed = query(buffer, capacity)
    assert needed < capacity, "the report outgrew its buffer between two calls"
    return json.loads(buffer.value)


def stash_bytes() -> int | None:
    now = report()
    return None if now is None else now["stash_bytes_at_exit"]


def stash_bytes_in_the_end() -> int | None:
    """When what was released, which may still be on its way through the side thread, has had five seconds."""
    for _ in range(500):
        if not (left := stash_bytes()):
            break
        time.sleep(0.01)
    return left


def taken() -> int | None:
    """How many storages Cinch has had to itself so far, encoded or, where no codec helps, kept."""
    now = report()
    return None if now is None else sum(op["count"] for op in now["ops"])
