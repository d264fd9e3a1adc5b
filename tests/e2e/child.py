# SPDX-License-Identifier: Apache-2.0
"""Runs one module of workloads, or some of it, in this process, and writes down what each computed.

    python child.py MODULE OUTPUT.pt [WORKLOAD…]

Started by torchrun, process R of several writes OUTPUT.pt.R. E2E_DEVICE is where the workloads' tensors lie.

Under the preload each workload's outcome also tells how many tensors Cinch took during it and how
many bytes the stash still held after it.
"""

import gc
import os
import sys

import torch

import live
from workloads import registry


def measure(function) -> dict:
    torch.manual_seed(0)
    taken_before = live.taken()
    values = function()
    gc.collect()
    taken_after = live.taken()
    return {
        "values": values,
        "stash_bytes": live.stash_bytes(),
        "taken": None if taken_after is None else taken_after - taken_before,
    }


def main():
    module, output, *only = sys.argv[1:]
    if "E2E_DEVICE" in os.environ:
        torch.set_default_device(os.environ["E2E_DEVICE"])
    if "RANK" in os.environ:
        output += "." + os.environ["RANK"]
    workloads = {name: function for name, function in registry.load(module).items() if not only or name in only}
    gc.freeze()  # modules' objects: each collection would look through them
    torch.save({name: measure(function) for name, function in workloads.items()}, output)


if __name__ == "__main__":
    main()
