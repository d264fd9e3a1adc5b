# SPDX-License-Identifier: Apache-2.0
"""Microseconds on the host of the driver's calls for virtual memory, for handles of 2 and of 20 MiB: on an
idle device, and while a kernel runs, when a call that waits for the device takes longer than the idle one.

Prints {"us": {"2 MiB": {"idle": {call: median}, "busy": {…}}, …}, "rounds": in each of which all calls are made,
"waited": {"2 MiB": rounds in which the kernel had ended before the last call had, …}}.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402

MIB = 1 << 20


class Location(ctypes.Structure):
    """CUmemLocation: type 1 is a device."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Properties(ctypes.Structure):
    """CUmemAllocationProp: type 1 is pinned."""

    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location), ("meta", ctypes.c_void_p),
                ("flags", ctypes.c_uint8 * 8)]  # fmt: skip


class Access(ctypes.Structure):
    """CUmemAccessDesc: flags 3 are read and write."""

    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class VirtualMemory:
    """The calls, each timed. @raises RuntimeError when one fails"""

    def __init__(self, device: int):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        where = Location(1, device)
        self.properties, self.access = Properties(1, 0, where), Access(where, 3)
        self.microseconds: dict[str, list[float]] = {}

    def call(self, name: str, *arguments):
        function = getattr(self.cuda, name)
        start = time.perf_counter_ns()
        status = function(*arguments)
        self.microseconds.setdefault(name, []).append((time.perf_counter_ns() - start) / 1e3)
        if status != 0:
            raise RuntimeError(f"{name}: CUDA error {status}")

    def round(self, bytes: int):
        """One handle: made, mapped, and all of that undone."""
        size, none = ctypes.c_size_t(bytes), ctypes.c_size_t(0)
        address, handle = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("cuMemAddressReserve", ctypes.byref(address), size, none, ctypes.c_uint64(0), ctypes.c_uint64(0))
        self.call("cuMemCreate", ctypes.byref(handle), size, ctypes.byref(self.properties), ctypes.c_uint64(0))
        self.call("cuMemMap", address, size, none, handle, ctypes.c_uint64(0))
        self.call("cuMemSetAccess", address, size, ctypes.byref(self.access), ctypes.c_size_t(1))
        self.call("cuMemUnmap", address, size)
        self.call("cuMemRelease", handle)
        self.call("cuMemAddressFree", address, size)


def measured(bytes: int, rounds: int, busy) -> tuple[dict[str, float], int]:
    """Median of each call, and how many rounds the kernel that `busy` starts did not outlast."""
    memory, ended = VirtualMemory(torch.cuda.current_device()), 0
    memory.round(bytes)  # first use
    memory.microseconds.clear()
    for _ in range(rounds):
        event = busy()
        memory.round(bytes)
        ended += event is not None and event.query()
        torch.cuda.synchronize()
    return {name: statistics.median(times) for name, times in memory.microseconds.items()}, ended


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--fake", action="store_true")
    options = parser.parse_args()
    torch.empty(1, device="cuda")
    torch.cuda.synchronize()

    def kernel():
        """About 20 ms on an H100: longer than a round, unless a call waits. The fake has none that takes time."""
        if options.fake:
            return None
        torch.cuda._sleep(40_000_000)
        event = torch.cuda.Event()
        event.record()
        return event

    found, waited = {}, {}
    for mib in (2, 20):
        idle, _ = measured(mib * MIB, options.rounds, lambda: None)
        busy, ended = measured(mib * MIB, options.rounds, kernel)
        found[f"{mib} MiB"], waited[f"{mib} MiB"] = {"idle": idle, "busy": busy}, ended
    print(json.dumps({"us": found, "waited": waited, "rounds": options.rounds}))


if __name__ == "__main__":
    main()
