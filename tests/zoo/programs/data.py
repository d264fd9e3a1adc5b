# SPDX-License-Identifier: Apache-2.0
"""Data that ships in packages, the seed and a second process: what the programs of the zoo share."""

import inspect
import os
import socket
import sys

import torch


def seed() -> int:
    """The program's only argument, 0 without one; PyTorch is seeded with it."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(number)
    torch.set_num_threads(1)
    return number


def in_two_processes(work) -> None:
    """Calls work(rank) in two processes that gloo connects."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(_take_part, (work, port), nprocs=2)


def _take_part(rank, work, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    work(rank)
    # gloo's threads give up the last gradients some time after they are reduced, for which they need an interpreter.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def digits(size: int = 8, channels: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 handwritten digits as images of `size` pixels squared in [-1, 1], and their labels."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1
    if size != 8:
        images = torch.nn.functional.interpolate(images, size=size, mode="bilinear")
    return images.expand(-1, channels, -1, -1).contiguous(), torch.tensor(data.target)


def batches(count: int, images: torch.Tensor, labels: torch.Tensor, size: int = 32):
    """`count` batches in an order that the seed decides."""
    order = torch.randperm(len(images)).repeat(1 + count * size // len(images))
    for step in range(count):
        some = order[step * size : (step + 1) * size]
        yield images[some], labels[some]


def text() -> torch.Tensor:
    """The source of torch.nn.functional as bytes, of which there are fewer than 128."""
    source = inspect.getsource(torch.nn.functional).encode("ascii", "replace")
    return torch.frombuffer(bytearray(source), dtype=torch.uint8).long()


def lines(length: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Stretches of the text, and the same ones a byte later."""
    corpus = text()
    start = torch.randint(len(corpus) - length - 1, (batch, 1)) + torch.arange(length)
    return corpus[start], corpus[start + 1]


def say(step: int, loss) -> None:
    """Prints a loss with all its bits."""
    value = loss.detach() if isinstance(loss, torch.Tensor) else loss
    print(f"step {step} loss {float(value)!r}", flush=True)


def metric(name: str, value) -> None:
    """Prints what the program came to."""
    value = value.detach() if isinstance(value, torch.Tensor) else value
    print(f"metric {name} {float(value):.6f}", flush=True)
