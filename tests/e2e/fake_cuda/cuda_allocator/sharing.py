# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors between two processes, as torch.multiprocessing shares them: contents seen both ways, and
everything given back. The receiver is preloaded with RECEIVER_PRELOAD. Prints JSON.

Which tensors: one on a page of small blocks, views of one storage, one of many handles of one size, and
one of handles of several sizes, which only Cinch can name."""

import json
import os
import sys

import fakecuda
import torch
import torch.multiprocessing as mp

from figures import figures

MB = 2**20
fake = fakecuda.control()


def fill(tensor, value):
    """Only some of it: the machine's memory is real."""
    tensor[:1000].fill_(value)
    tensor[tensor.numel() // 2 :][:1000].fill_(value + 1)
    tensor[-1000:].fill_(value + 2)


def holds(tensor, value):
    parts = tensor[:1000], tensor[tensor.numel() // 2 :][:1000], tensor[-1000:]
    return all(bool((part.cpu() == value + i).all()) for i, part in enumerate(parts))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def left():
    """What there still is of device memory in this process."""
    torch.cuda.synchronize()
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    maps = open("/proc/self/maps").read()
    return [torch.cuda.memory_allocated(), fake.used(0), maps.count("memfd:fakecuda")]


def receive(queue, answers, go_on):
    torch.cuda.init()
    answer = {"wrong": [], "preloaded": "libcinch" in open("/proc/self/maps").read()}
    received = {}
    while True:
        name = queue.get()
        if name is None:
            break
        try:
            received[name] = queue.get()
        except RuntimeError as error:
            answer[f"{name}.error"] = str(error)
    for i, (name, tensor) in enumerate(received.items()):
        if not holds(tensor, 10 * i):
            answer["wrong"].append(name)
        fill(tensor, 100 + 10 * i)
    views = [name for name in received if name.startswith("view")]
    answer["one storage"] = len({received[name].untyped_storage().data_ptr() for name in views}) == 1
    torch.cuda.synchronize()
    answer["received"] = list(received)
    own = torch.empty(3 * MB, dtype=torch.float32, device="cuda")
    fill(own, 500)
    answers.put(answer)
    answers.put(own)
    go_on.wait()
    answer = {"written by the other": holds(own, 600)}
    received.clear()
    del tensor, own
    answer["left"] = left()
    answer["figures"] = figures()
    answer["faults"] = fake.faults()
    answers.put(answer)
    go_on.clear()
    go_on.wait()  # until the sender has seen that all is free


def tensors():
    """By name; values as the receiver expects them in this order."""
    first, second = (torch.empty(100 * MB, dtype=torch.uint8, device="cuda") for _ in range(2))
    third = torch.empty(100 * MB, dtype=torch.uint8, device="cuda")
    del first, second, third  # side by side, of handles that grew
    mixed = torch.empty(300 * MB, dtype=torch.uint8, device="cuda")
    whole = torch.empty(12 * MB, dtype=torch.uint8, device="cuda")
    return {
        "small": torch.empty(5000, dtype=torch.uint8, device="cuda"),
        "view 1": whole[: 5 * MB],
        "view 2": whole[6 * MB :],
        "large": torch.empty(9 * MB, dtype=torch.uint8, device="cuda"),
        "mixed": mixed,
    }


def main():
    torch.cuda.init()
    context = mp.get_context("spawn")
    queue, answers, go_on = context.SimpleQueue(), context.SimpleQueue(), context.Event()
    os.environ["LD_PRELOAD"] = os.environ["RECEIVER_PRELOAD"]
    receiver = context.Process(target=receive, args=(queue, answers, go_on))
    receiver.start()
    torch.ones(1, device="cuda")
    before = descriptors(), torch.cuda.memory_allocated()
    shared = tensors()
    result = {"peak": torch.cuda.memory_allocated()}
    for i, (name, tensor) in enumerate(shared.items()):
        fill(tensor, 10 * i)
        queue.put(name)
        queue.put(tensor)
    queue.put(None)
    result["receiver"] = answers.get()
    theirs = answers.get()
    torch.cuda.synchronize()
    written = result["receiver"]["received"]
    result["wrong"] = [name for i, name in enumerate(written) if not holds(shared[name], 100 + 10 * i)]
    result["from receiver"] = holds(theirs, 500)
    fill(theirs, 600)
    torch.cuda.synchronize()
    del theirs
    # What the receiver still has must neither go nor be used again.
    shared.clear()
    del tensor
    torch.cuda.empty_cache()
    again = torch.full((50 * MB,), 7, dtype=torch.uint8, device="cuda")
    del again
    go_on.set()
    result["receiver"] |= answers.get()
    result["left"] = left()
    result["descriptors"] = descriptors() - before[0]
    result["figures"] = figures()
    result["faults"] = fake.faults()
    while go_on.is_set():
        pass
    go_on.set()
    receiver.join()
    result["exit"] = receiver.exitcode
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
