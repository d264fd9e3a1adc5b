# SPDX-License-Identifier: Apache-2.0
"""Makes single allocations of the core fail, and counts them, in a process with libe2e_no_memory.so preloaded."""

import ctypes

NEVER = 1 << 40


class FailingAllocations:
    def __init__(self, library: str):
        self._library = ctypes.CDLL(library)
        self._library.fail_allocation.argtypes = (ctypes.c_long,)
        self._library.counted_allocations.restype = self._library.counted_locks.restype = ctypes.c_long

    def fail(self, number: int):
        """The `number`-th allocation from now on, once."""
        self._library.fail_allocation(number)

    def count(self) -> int:
        """Allocations of the core since `fail`."""
        return self._library.counted_allocations()

    def locks(self) -> int:
        """Locks that the core has taken since the first `fail`."""
        return self._library.counted_locks()

    def stop(self) -> int:
        """None fails any more. Returns the count."""
        count = self.count()
        self._library.fail_allocation(0)
        return count


def says_so(error: Exception | str) -> bool:
    """Whether the error is that of a read for which there was no memory."""
    return any(words in str(error) for words in ("bad_alloc", "no memory", "out of memory", "defect"))
