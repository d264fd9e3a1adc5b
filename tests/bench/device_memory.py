#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory at real shapes without a GPU: PyTorch's two allocators, Cinch's, and Cinch with a policy.

    .venv/bin/python tests/bench/device_memory.py [--build build] [--model NAME…] [--steps 30] [--policy NAME]

Each runs the trainings of record_traces.py in a process of its own on the fake CUDA runtime without
computing anything (docs/fakecuda.md): what is allocated and reserved is right, contents and times are not.
With a policy that is so where sizes do not depend on values (not for `error_bounded_ratio`). What kernels of cuDNN and cuBLAS allocate for themselves is missing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import record_traces
import torch

ALONE = {"version": 1, "policy": "off", "allocator": {"cuda": True}}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def measure(name, steps):
    """Peaks of this process. Bytes"""
    torch.cuda.init()
    for _ in record_traces.training(name, steps):
        pass
    return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=record_traces.ROOT / "build")
    parser.add_argument("--model", nargs="+", choices=record_traces.MODELS, default=list(record_traces.MODELS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--policy", help="a preset or policy file to run under, too")
    parser.add_argument("--on-device", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.on_device:
        print(json.dumps(measure(args.model[0], args.steps)))
        return
    sys.path.insert(0, str(record_traces.ROOT / "tests/fakecuda"))
    build = args.build.resolve()
    os.environ["CINCH_BUILD_DIR"] = str(build)
    import fakecuda

    if not fakecuda.available():
        parser.error(f"{args.build} has no fake CUDA runtime")
    with tempfile.TemporaryDirectory() as folder:
        alone = pathlib.Path(folder) / "allocator.json"
        alone.write_text(json.dumps(ALONE))
        cinch = {"LD_PRELOAD": str(build / "lib/fakecuda/libcinch.so"), "CINCH_STRICT": "1"}
        subjects = {"PyTorch": {}, "expandable segments": EXPANDABLE, "Cinch": cinch | {"CINCH_POLICY": str(alone)}}
        if args.policy is not None:
            subjects[f"Cinch, {args.policy}"] = cinch | {"CINCH_POLICY": args.policy}
        for name in args.model:
            print(f"{name}, {args.steps} steps")
            for subject, extra in subjects.items():
                env = fakecuda.environment(
                    dict(os.environ) | extra, compute=False, kernels=False, unknown_kernels="skip", memory=record_traces.MEMORY
                )
                command = [sys.executable, "-W", "ignore", __file__, "--on-device", "--model", name, "--steps", str(args.steps)]
                done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
                peak = json.loads(done.stdout.splitlines()[-1])
                lost = 100 * (1 - peak["allocated"] / peak["reserved"])
                gib = {what: f"{peak[what] / 2**30:6.2f} GiB" for what in peak}
                print(f"  {subject:22} allocated {gib['allocated']}, reserved {gib['reserved']}, fragmentation {lost:4.1f} %", flush=True)


if __name__ == "__main__":
    main()
