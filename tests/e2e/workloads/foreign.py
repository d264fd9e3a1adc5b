# SPDX-License-Identifier: Apache-2.0
"""Saved tensors that are not Cinch's to take: the program's own hooks want them, or their memory did
not come from torch's allocator. Each is the only kind of tensor that its graph saves."""

import numpy as np
import torch

from workloads.registry import workload


def chain(x, depth: int = 6):
    for _ in range(depth):
        x = x.sin() * 1.5
    return x


@workload
def saved_on_cpu():
    x = torch.randn(64, 64, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = chain(x)
    y.sum().backward()
    return {"grad": x.grad}


@workload
def hooks_of_the_program():
    x = torch.randn(64, 64, requires_grad=True)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.detach().clone())
        return len(packed) - 1

    def unpack(index):
        unpacked.append(index)
        return packed[index] * 2

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = chain(x)
    y.sum().backward()
    return {"grad": x.grad, "packed": len(packed), "order": torch.tensor(unpacked)}


@workload
def hooks_forbidden_by_the_program():
    """Where the program forbids saved-tensor hooks, nothing is hooked and nothing fails."""
    x = torch.randn(64, 64, requires_grad=True)
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        y = chain(x)
        try:
            with torch.autograd.graph.save_on_cpu():
                chain(x)
        except RuntimeError as error:
            message = str(error)
    y.sum().backward()
    return {"grad": x.grad, "message": message}


@workload
def mutation_of_saved_tensors_allowed():
    """PyTorch's own hooks copy what is about to be modified."""
    x = torch.randn(64, 64, requires_grad=True)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = chain(x).exp()
        z = y.sin()
        y.mul_(2)
        chain(z + y).sum().backward()
    return {"grad": x.grad}


@workload
def memory_of_numpy():
    """NumPy frees this memory, so nobody can say that the storage is autograd's alone."""
    w = torch.randn(64, 64, requires_grad=True)
    y = w
    for i in range(6):
        y = y * torch.from_numpy(np.full((64, 64), 1.0 + i / 8, dtype=np.float32))
    y.sum().backward()
    return {"grad": w.grad}


@workload
def memory_of_a_buffer():
    w = torch.randn(64, 64, requires_grad=True)
    y = w
    for i in range(6):
        values = np.full(4096, 1.0 + i / 8, dtype=np.float32)
        y = y * torch.frombuffer(bytearray(values), dtype=torch.float32).view(64, 64)
    y.sum().backward()
    return {"grad": w.grad}


@workload
def shared_memory():
    w = torch.randn(64, 64, requires_grad=True)
    y = w
    for i in range(6):
        y = y * torch.full((64, 64), 1.0 + i / 8).share_memory_()
    y.sum().backward()
    return {"grad": w.grad}


@workload
def inputs_and_parameters():
    """What the program holds anyway: leaves, views of leaves, and inputs."""
    w, x = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64)
    outputs = [w * x, w.t() * x, w[:32] * x[:32], w.view(-1) * x.flatten()]
    torch.autograd.backward([output.sum() for output in outputs])
    return {"grad": w.grad}


@workload
def without_gradient():
    x = torch.randn(64, 64)
    with torch.no_grad():
        first = chain(torch.randn(64, 64, requires_grad=True))
    with torch.inference_mode():
        second = chain(torch.randn(64, 64, requires_grad=True)).clone()
    return {"first": first, "second": second.sum().item(), "third": chain(x)}
