# SPDX-License-Identifier: Apache-2.0
# Run by control.cpp inside the program, with a call of `dump` added that sets `state` to "written",
# or to why not.
def dump(path):
    import os
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return "this process does not use CUDA"
    path = os.fsdecode(bytes.fromhex(path))
    try:
        # Never half a file, whatever was there before.
        torch.cuda.memory._dump_snapshot(path + ".tmp")
        os.replace(path + ".tmp", path)
    except Exception as error:
        return str(error)
    return "written"


