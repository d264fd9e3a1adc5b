# SPDX-License-Identifier: Apache-2.0
"""Trains one of the small models on real data and prints what became of it, as a line of JSON. fidelity.py runs it.

    train_small.py MODEL SEED STEPS
"""

import json
import math
import pathlib
import random
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from small_models import GPT, Classifier, UNet, ViT, attention_written_out, cnn, digits, resnet18

CONTEXT = 96
BATCH = 32


def shuffled(count: int, batch: int):
    """Endless batches of row numbers, each row once before any comes again."""
    order = []
    while True:
        if len(order) < batch:
            order = torch.randperm(count).tolist()
        picked, order = order[:batch], order[batch:]
        yield picked


class Task(NamedTuple):
    """A model with all that trains it."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batch: Callable  # () -> tensors of the next batch
    loss: Callable  # (batch) -> the loss
    tested: Callable  # () -> the metric and the test loss of the trained model


def adamw(model, rate: float):
    return torch.optim.AdamW(model.parameters(), lr=rate)


def told_right(model, batches) -> tuple[float, float]:
    """Per cent of the classes that are told right, and the mean cross entropy, which tells small differences sooner."""
    right = loss = count = 0
    for x, y in batches:
        scores = model(x)
        right += (scores.argmax(1) == y).sum().item()
        loss += F.cross_entropy(scores, y, reduction="sum").item()
        count += len(y)
    return 100 * right / count, loss / count


def classify(model, size: int, seed: int, optimizer=None) -> Task:
    x, y, xt, yt, grow = digits(size, seed)
    rows = shuffled(len(y), BATCH)

    def batch():
        picked = next(rows)
        return grow(x[picked]), y[picked]

    return Task(
        model,
        optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4),
        batch,
        lambda batch: F.cross_entropy(model(batch[0]), batch[1]),
        lambda: told_right(model, ((grow(a), b) for a, b in zip(xt.split(200), yt.split(200)))),
    )


def source_text(pattern: str, files: int) -> torch.Tensor:
    """Bytes of the standard library's own source."""
    folder = pathlib.Path(json.__file__).parent.parent
    text = b"".join(f.read_bytes() for f in sorted(folder.glob(pattern))[:files])
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def write(eager: bool = False) -> Task:
    """The next byte of source text: bits a byte, twice. @param eager With attention written out"""
    data = source_text("*.py", 60)
    train, test = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]
    model = GPT(context=CONTEXT)
    if eager:
        for block in model.blocks:
            block.attention.attend = attention_written_out

    def rows(source, starts):
        return torch.stack([source[s : s + CONTEXT + 1] for s in starts])

    def loss(rows):
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def tested():
        starts = torch.linspace(0, len(test) - CONTEXT - 1, 256).long().tolist()
        bits = sum(loss(rows(test, starts[i : i + 32])).item() for i in range(0, 256, 32)) / 8 / math.log(2)
        return bits, bits

    def batch():
        return rows(train, torch.randint(len(train) - CONTEXT - 1, (16,)).tolist())

    return Task(model, adamw(model, 2e-3), batch, loss, tested)


def read() -> Task:
    """From which package of the standard library a piece of source is."""
    packages = ("asyncio", "email", "json", "logging", "multiprocessing", "unittest", "xml", "ctypes")
    trains, tests = [], []
    for package in packages:
        data = source_text(f"{package}/**/*.py", 40)
        cut = int(len(data) * 0.8)
        trains.append(data[:cut])
        tests.append(data[cut:])
    model = Classifier(classes=len(packages), context=CONTEXT)

    def pieces(sources, count):
        classes = torch.randint(len(packages), (count,))
        starts = [int(torch.randint(len(sources[c]) - CONTEXT, ()).item()) for c in classes]
        return torch.stack([sources[c][s : s + CONTEXT] for c, s in zip(classes, starts)]), classes

    def tested():
        torch.manual_seed(1)
        return told_right(model, [pieces(tests, 128) for _ in range(8)])

    def loss(batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return Task(model, adamw(model, 1e-3), lambda: pieces(trains, BATCH), loss, tested)


def denoise(seed: int) -> Task:
    """Digits out of noise of their own size: the peak signal-to-noise ratio in dB, and the mean squared error."""
    x, _, xt, _, grow = digits(32, seed)
    model = UNet()
    rows = shuffled(len(x), 16)

    def batch():
        clean = grow(x[next(rows)])
        return clean + torch.randn_like(clean), clean

    def tested():
        torch.manual_seed(1)
        squares = count = 0
        for part in xt.split(100):
            clean = grow(part)
            squares += (model(clean + torch.randn_like(clean)) - clean).square().sum().item()
            count += clean.numel()
        return 10 * math.log10(4 * count / squares), squares / count  # values lie in [-1, 1]

    return Task(model, adamw(model, 2e-3), batch, lambda batch: F.mse_loss(model(batch[0]), batch[1]), tested)


def vision_transformer(seed: int) -> Task:
    model = ViT()
    return classify(model, 32, seed, adamw(model, 1e-3))


def task(name: str, seed: int) -> Task:
    """@param seed Of the split of the data; initial weights come from torch's own generator"""
    return {
        "cnn": lambda: classify(cnn(), 16, seed),
        "resnet18": lambda: classify(resnet18(), 32, seed),
        "vit": lambda: vision_transformer(seed),
        "gpt": write,
        "gpt_eager": lambda: write(eager=True),
        "bert": read,
        "unet": lambda: denoise(seed),
    }[name]()


def train(of: Task, steps: int) -> None:
    rate = of.optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(of.optimizer, rate, total_steps=steps)
    for _ in range(steps):
        loss = of.loss(of.batch())
        of.optimizer.zero_grad()
        loss.backward()
        of.optimizer.step()
        schedule.step()


def main():
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    random.seed(seed)
    begin = time.perf_counter()
    chosen = task(name, seed)
    train(chosen, steps)
    chosen.model.eval()
    with torch.no_grad():
        metric, loss = chosen.tested()
    print(json.dumps({"metric": metric, "loss": loss, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
