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


def started(method: str, seeds) -> dict:
    """What children that multiprocessing starts by `method` compute, one after the other."""
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    written = {}
    for seed in seeds:
        child = context.Process(target=spawned, args=(queue, seed))
        child.start()
        content = queue.get(timeout=120)
        child.join()
        assert child.exitcode == 0
        for key, value in torch.load(io.BytesIO(content), weights_only=True).items():
            written[f"{seed}.{key}"] = value
    return written


@workload
def spawned_children_train():
    return started("spawn", (5, 6)) | small_training(7)


@workload
def children_of_fork_train():
    torch.set_num_threads(1)
    return started("fork", (5, 6)) | small_training(7)


@workload
def children_of_a_fork_server_train():
    return started("forkserver", (5, 6)) | small_training(7)


def trains_shared_model(model, turns, number: int, barrier):
    """Hogwild: gradients are this process's, parameters everybody's. Taking turns makes it repeatable."""
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(number)
    barrier.wait(60)
    for _ in range(4):
        x = torch.randn(4, 3, 32, 32, generator=generator)
        assert turns[number].acquire(timeout=60)
        optimizer.zero_grad()
        cross_entropy()(model(x)).backward()
        optimizer.step()
        turns[(number + 1) % len(turns)].release()
    if live.report() is not None:
        assert live.taken() > 0, "Cinch took nothing in this process"


@workload
def hogwild():
    context = torch.multiprocessing.get_context("spawn")
    model = ConvNet(dropout=0).share_memory()
    turns = [context.Semaphore(0) for _ in range(2)]
    barrier = context.Barrier(2)
    children = [
        context.Process(target=trains_shared_model, args=(model, turns, n, barrier)) for n in range(len(turns))
    ]
    for child in children:
        child.start()
    turns[0].release()
    for child in children:
        child.join()
        assert child.exitcode == 0
    return {f"shared.{name}": value.clone() for name, value in model.state_dict().items()} | small_training(7)
