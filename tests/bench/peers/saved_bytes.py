# SPDX-License-Identifier: Apache-2.0
"""How many bytes autograd keeps for backward, and how much memory the process has."""

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef


def memory_bytes(field: str) -> int:
    """A field of /proc/self/status in bytes: VmRSS is memory now, VmHWM is its peak so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


def tensors_in(packed) -> list[torch.Tensor]:
    """The tensors that a pack hook returned: itself one, or a tuple with some."""
    if isinstance(packed, torch.Tensor):
        return [packed]
    return [part for part in packed if isinstance(part, torch.Tensor)] if isinstance(packed, tuple) else []


class SavedBytes:
    """While entered, finds the most bytes that autograd keeps for backward at any time, in `peak`.

    Counted are storages, each once and as long as it lives, that a tensor lies in which autograd saves, or which a pack
    hook of the program's (torch.utils.checkpoint's too) returns in its place. `parameters` don't count.
    """

    def __init__(self, parameters):
        self.peak = 0
        self._parameters = {p.untyped_storage()._cdata for p in parameters}
        self._alive = {}
        self._constructor = saved_tensors_hooks.__init__

    def _count(self, packed):
        for tensor in tensors_in(packed):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._parameters:
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._alive = {key: (weak, size) for key, (weak, size) in self._alive.items() if not weak.expired()}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return packed

    def __enter__(self):
        # Only the innermost hooks run, so those that the program enters meanwhile have to count too.
        constructor = self._constructor

        def counting(hooks, pack, unpack):
            def pack_and_count(tensor):
                try:
                    return self._count(pack(tensor))
                except Exception:  # torch.utils.checkpoint stops recomputing so, and has kept the tensor
                    self._count(tensor)
                    raise

            constructor(hooks, pack_and_count, unpack)

        saved_tensors_hooks.__init__ = counting
        self._outermost = saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
        self._outermost.__enter__()
        return self

    def __exit__(self, *exception):
        self._outermost.__exit__(*exception)
        saved_tensors_hooks.__init__ = self._constructor
