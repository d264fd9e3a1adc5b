# SPDX-License-Identifier: Apache-2.0
"""Makes single allocations of the core fail, in a process with libe2e_no_memory.so preloaded."""

import ctypes

NEVER = 1 << 40


class FailingAllocations:
    def __init__(self, library: str):
        self._library = ctypes.CDLL(library)
        self._library.fail_allocation.argtypes = (ctypes.c_long,)
        self._library.counted_allocations.restype = ctypes.c_long

    def fail(self, number: int):
        """The `number`-th allocation from now on, once."""
        self._library.fail_allocation(number)

    def stop(self) -> int:
        """None any more. Returns how many there were since `fail`."""
        count = self._library.counted_allocations()
        self._library.fail_allocation(0)
        return count


def says_so(error: Exception | str) -> bool:
    """Whether the error is that of a read for which there was no memory."""
    return any(words in str(error) for words in ("bad_alloc", "no memory", "out of memory", "defect"))
