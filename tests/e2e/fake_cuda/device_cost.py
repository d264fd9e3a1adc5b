# SPDX-License-Identifier: Apache-2.0
"""Program of test_cuda_cost.py: counts what a layer's forward and backward ask of the host and of CUDA.

    device_cost.py INJECTOR

Prints two objects, of forward and backward, with each figure's mean over the layers that the longer of two networks
has more than the other: what a step costs once drops out. A layer saves two tensors.
"""

import json
import sys
import time

import torch

import fakecuda
from failing_allocations import NEVER, FailingAllocations

SHORT, LONG = 4, 12
STEPS = 8  # until plans are made, recipes proved and pools filled
CUDAS = {
    "launches": "cudaLaunchKernel",
    "copies": "cudaMemcpyAsync",
    "events created": "cudaEventCreateWithFlags",
    "events recorded": "cudaEventRecord",
    "events queried": "cudaEventQuery",
    "waits of streams": "cudaStreamWaitEvent",
    "all calls": "*",
}
torch.set_num_threads(1)
control = fakecuda.control()
allocations = FailingAllocations(sys.argv[1])
torch.manual_seed(0)  # whether what is encoded losslessly frees a block of memory depends on the numbers
weight = torch.randn(16, 16, device="cuda", requires_grad=True)
x = torch.randn(32, 16, device="cuda")


def counts():
    time.sleep(0.02)  # the engine's thread may still be dropping the graph
    return {
        "host allocations": allocations.count(),
        "locks": allocations.locks(),
        "device allocations": torch.cuda.memory_stats()["allocation.all.allocated"],
        "waits of the host": control.host_syncs() + control.implicit_syncs(),
    } | {name: control.calls(call) for name, call in CUDAS.items()}


def since(begin):
    return {name: count - begin[name] for name, count in counts().items()}


def step(layers):
    begin = counts()
    value = x
    for _ in range(layers):
        value = torch.nn.functional.gelu(value @ weight)
    loss = value.sum()
    forward = since(begin)
    begin = counts()
    loss.backward()
    return forward, since(begin)


allocations.fail(NEVER)
found = {layers: [step(layers) for _ in range(STEPS)][-1] for layers in (SHORT, LONG)}
for short, long in zip(found[SHORT], found[LONG]):
    print(json.dumps({name: (long[name] - count) / (LONG - SHORT) for name, count in short.items()}))
