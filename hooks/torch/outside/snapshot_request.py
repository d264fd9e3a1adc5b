# SPDX-License-Identifier: Apache-2.0
# Run by snapshot_request.cpp inside the program, after snapshot_file.py: sets `state` to "arranged" once a snapshot will be
# written.
def arrange():
    import atexit
    import os
    import sys

    torch = sys.modules.get("torch")
    # Never the one who initializes CUDA: the program may want to fork first.
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized():
        return "too early"
    process = os.getpid()
    path = os.environ["CINCH_SNAPSHOT"].replace("%p", str(process))
    memory = torch.cuda.memory
    memory._record_memory_history(max_entries=100_000)

    def write(*_):
        if os.getpid() != process:
            return
        try:
            write_snapshot(memory, path)
        except Exception as error:
            print(f"cinch: no snapshot: {error}", file=sys.stderr)

    atexit.register(write)
    torch._C._cuda_attach_out_of_memory_observer(write)
    return "arranged"


state = arrange()
