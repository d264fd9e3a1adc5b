# SPDX-License-Identifier: Apache-2.0
"""Programs of several processes. Children send what they computed, so it is compared like the rest."""

import io
import multiprocessing
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import live
from workloads.models import ConvNet, cross_entropy
from workloads.registry import workload
from workloads.training import train


def small_training(seed: int) -> dict:
    """Trains in one thread: OpenMP's other threads do not survive a fork."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    written = train(ConvNet(), [torch.randn(4, 3, 32, 32)], cross_entropy())
    if live.report() is not None:
        assert live.taken() > 0, "Cinch took nothing in this process"
        assert live.stash_bytes() == 0, f"{live.stash_bytes()} bytes stayed in the stash"
    return written


class Computed(Dataset):
    """Each item is the gradient of a small graph, differentiated in the worker process."""

    def __len__(self):
        return 24

    def __getitem__(self, index):
        x = torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(index)).requires_grad_()
        y = x
        for _ in range(4):
            y = (y * 1.5).sin()
        y.sum().backward()
        return x.grad, index % 10


@workload
def data_loader_workers():
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(2):
        for images, labels in DataLoader(Computed(), batch_size=6, num_workers=2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return {"losses": torch.tensor(losses)} | {name: p.detach() for name, p in model.named_parameters()}


def in_forked_child(function) -> dict:
    """What `function` returns in a child of fork(), which ends without Python's or libc's clean-up."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            buffer = io.BytesIO()
            torch.save(function(), buffer)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(buffer.getvalue())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return torch.load(io.BytesIO(content), weights_only=True)


@workload
def forked_child_trains():
    before = small_training(1)
    child = in_forked_child(lambda: small_training(2))
    after = small_training(3)
    return {
        f"{who}.{key}": value
        for who, values in (("before", before), ("child", child), ("after", after))
        for key, value in values.items()
    }


@workload
def forked_between_forward_and_backward():
    """Parent and child both walk the graph that the parent built before the fork."""
    torch.set_num_threads(1)
    x = torch.randn(64, 64, requires_grad=True)
    y = x
    for _ in range(8):
        y = (y * 1.5).sin()

    def walk():
        return {"grad": torch.autograd.grad(y.sum(), x)[0]}

    child = in_forked_child(walk)
    parent = walk()
    return {"child": child["grad"], "parent": parent["grad"]}


def spawned(queue, seed: int):
    buffer = io.BytesIO()
    torch.save(small_training(seed), buffer)
    queue.put(buffer.getvalue())


@workload
def spawned_children_train():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    written = {}
    for seed in (5, 6):
        child = context.Process(target=spawned, args=(queue, seed))
        child.start()
        content = queue.get(timeout=120)
        child.join()
        assert child.exitcode == 0
        for key, value in torch.load(io.BytesIO(content), weights_only=True).items():
            written[f"{seed}.{key}"] = value
    return written | small_training(7)
