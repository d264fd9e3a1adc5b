# SPDX-License-Identifier: Apache-2.0
"""Runs programs on the fake CUDA runtime, and steers it from inside them (docs/fakecuda.md).

`environment` is for who starts a program; `control` for the program itself. The build under test is
$CINCH_BUILD_DIR.
"""

import ctypes
import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def build() -> pathlib.Path:
    return pathlib.Path(os.environ["CINCH_BUILD_DIR"])


def available() -> bool:
    """Whether it was built: it needs a torch for CUDA and CUDA's headers."""
    return (build() / "lib/libfakecuda.so").is_file()


def environment(
    base: dict[str, str],
    *,
    executor: bool = True,
    compute: bool = True,
    kernels: bool = True,
    devices: int = 1,
    memory: int = 4 << 30,
    shared: str | os.PathLike | None = None,
    schedule: str | None = None,
    event_delay: int | None = None,
    poison: bool = False,
    fail: str = "",
    trace: str | os.PathLike | None = None,
    unknown_kernels: str = "fail",
) -> dict[str, str]:
    """`base` with what a child process needs to find a CUDA device.

    Whatever `base` preloads (libcinch.so) stays preloaded, and `cinch run` keeps what this preloads.
    `executor`: torch's operators run on the CPU; without it, kernels fail or, with
    unknown_kernels="skip", do nothing. `compute`: without it, operators give tensors of the right sizes
    and touch no memory, for shapes that this machine could not hold. `kernels`: Cinch's own kernels run on the CPU. The other
    options are told in docs/fakecuda.md. What `schedule` and `event_delay` are by default, the environment may tell.
    """
    if schedule is None:
        schedule = os.environ.get("FAKECUDA_DEFAULT_SCHEDULE", "eager")
    if event_delay is None:
        event_delay = int(os.environ.get("FAKECUDA_DEFAULT_EVENT_DELAY", "0"))
    lib = build() / "lib"
    libraries = [lib / "libfakecuda_executor.so"] * executor
    if kernels and (lib / "libfakecuda_kernels.so").is_file():
        libraries.append(lib / "libfakecuda_kernels.so")
    preload = [str(lib / "libfakecuda.so"), *base.get("LD_PRELOAD", "").split()]
    path = [str(HERE), *filter(None, [base.get("PYTHONPATH")])]
    added = {
        "LD_PRELOAD": " ".join(preload),
        "PYTHONPATH": os.pathsep.join(path),
        "FAKECUDA_LIBRARIES": ":".join(map(str, libraries)),
        "FAKECUDA_COMPUTE": str(int(compute)),
        "FAKECUDA_DEVICES": str(devices),
        "FAKECUDA_MEMORY": str(memory),
        "FAKECUDA_SCHEDULE": schedule,
        "FAKECUDA_EVENT_DELAY": str(event_delay),
        "FAKECUDA_POISON": str(int(poison)),
        "FAKECUDA_FAIL": fail,
        "FAKECUDA_UNKNOWN_KERNELS": unknown_kernels,
    }
    if shared is not None:
        added["FAKECUDA_SHARED"] = str(shared)
    if trace is not None:
        added["FAKECUDA_TRACE"] = str(trace)
    return base | added


class Control:
    """fakecuda.h, in the process that runs on the fake."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")  # its SONAME; it is loaded already
        signatures = {
            "set_memory": (None, [ctypes.c_size_t]),
            "used": (ctypes.c_size_t, [ctypes.c_int]),
            "has_context": (ctypes.c_int, [ctypes.c_int]),
            "fail": (None, [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int]),
            "stop_failing": (None, []),
            "calls": (ctypes.c_uint64, [ctypes.c_char_p]),
            "host_syncs": (ctypes.c_uint64, []),
            "host_syncs_of": (ctypes.c_uint64, [ctypes.c_char_p]),
            "implicit_syncs": (ctypes.c_uint64, []),
            "implicit_syncs_of": (ctypes.c_uint64, [ctypes.c_char_p]),
            "launches": (ctypes.c_uint64, []),
            "launches_skipped": (ctypes.c_uint64, []),
            "faults": (ctypes.c_uint64, []),
            "trace": (None, [ctypes.c_char_p]),
            "schedule": (ctypes.c_int, [ctypes.c_char_p]),
            "set_event_delay": (None, [ctypes.c_int]),
            "hold": (None, [ctypes.c_void_p]),
            "release": (None, [ctypes.c_void_p]),
            "step": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_size_t]),
            "pending": (ctypes.c_size_t, []),
            "set_poison": (None, [ctypes.c_int]),
            "set_peers": (None, [ctypes.c_int]),
            "poison": (None, [ctypes.c_void_p, ctypes.c_size_t]),
            "poison_async": (None, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self._library, f"fakecuda_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, f"_{name}", function)
            if not hasattr(type(self), name):
                setattr(self, name, function)

    def calls(self, call: str = "*") -> int:
        return self._calls(call.encode())

    def host_syncs_of(self, call: str) -> int:
        return self._host_syncs_of(call.encode())

    def implicit_syncs_of(self, call: str) -> int:
        return self._implicit_syncs_of(call.encode())

    def fail(self, call: str, nth: int = 1, error: int = 2):
        self._fail(call.encode(), nth, error)

    def schedule(self, schedule: str):
        if self._schedule(schedule.encode()) != 0:
            raise ValueError(schedule)

    def trace(self, path: str | os.PathLike | None):
        self._trace(None if path is None else os.fsencode(path))


def control() -> Control:
    return Control()
