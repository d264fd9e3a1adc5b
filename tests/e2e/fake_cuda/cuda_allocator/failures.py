# SPDX-License-Identifier: Apache-2.0
"""A training step during which every call that the allocator makes of the driver fails in turn: the
step succeeds, or raises torch.OutOfMemoryError, and the next one succeeds; nothing is left behind.
Then the same with all calls of a kind failing from some moment on.
Prints how many calls of each kind failed, and how many steps did."""

import gc
import json

import fakecuda
import torch
from torch import nn

from figures import figures

# CUDA's error numbers: memory, and "something else is wrong".
OUT_OF_MEMORY, UNKNOWN = 2, 999
CALLS = {
    "cuMemCreate": OUT_OF_MEMORY,
    "cuMemAddressReserve": OUT_OF_MEMORY,
    "cuMemMap": UNKNOWN,
    "cuMemSetAccess": UNKNOWN,
    "cuMemUnmap": UNKNOWN,
    "cuMemRelease": UNKNOWN,
    "cuMemAddressFree": UNKNOWN,
    "cudaMemGetInfo": UNKNOWN,
    "cudaEventCreateWithFlags": OUT_OF_MEMORY,
    "cudaEventRecord": UNKNOWN,
    "cudaEventQuery": UNKNOWN,
    "cudaEventSynchronize": UNKNOWN,
    "cudaStreamWaitEvent": UNKNOWN,
}
fake = fakecuda.control()
MB = 2**20

model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
side = torch.cuda.Stream()
other = torch.cuda.Stream()
torch.manual_seed(0)
batch = torch.randn(64, 256).cuda()


def step():
    """Misses, events, blocks that other streams use, stitching, and nearly all of the memory."""
    for parameter in model.parameters():
        parameter.grad = None
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    small = [torch.empty(6 * MB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    for block in small[::2]:
        with torch.cuda.stream(side):
            block.fill_(1)
        block.record_stream(side)
    del small[::2]
    del block
    large = torch.empty(21 * MB, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(other):
        huge = torch.empty(20 * MB, dtype=torch.uint8, device="cuda")
    del small, large, huge
    torch.cuda.empty_cache()


def settle():
    for parameter in model.parameters():
        parameter.grad = None
    gc.collect()


gc.collect()
gc.freeze()  # what is imported need not be looked through hundreds of times
result = {"failed_calls": {}, "failed_steps": 0}
step()
step()
settle()
before = torch.cuda.memory_allocated()
uses = {}
for call in CALLS:
    count = fake.calls(call)
    step()
    settle()
    uses[call] = fake.calls(call) - count


def fail(call, numbers):
    for nth in numbers:
        fake.fail(call, nth, CALLS[call])
    try:
        step()
    except torch.OutOfMemoryError:
        result["failed_steps"] += 1
    fake.stop_failing()
    settle()
    # Less, where a rescue gave up what the stash puts aside: the next step puts it aside again.
    assert torch.cuda.memory_allocated() <= before, (call, numbers)
    step()
    settle()
    assert torch.cuda.memory_allocated() == before, (call, numbers)
    figures()


for call in CALLS:
    for nth in range(1, uses[call] + 1):
        fail(call, [nth])
    result["failed_calls"][call] = uses[call]
for call in CALLS:  # and from some moment on nothing of the kind succeeds
    for first in (1, 4, 9):
        fail(call, range(first, first + 300))
torch.cuda.empty_cache()
result["figures"] = figures()
result["used"] = fake.used(0)
result["faults"] = fake.faults()
print(json.dumps(result))
