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

import torch
import torch.nn.functional as F

from small_models import GPT, Classifier, UNet, ViT, cnn, digits, resnet18

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


def optimize(model, optimizer, rate: float, steps: int, loss_of_step) -> None:
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    for _ in range(steps):
        loss = loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()


def told_right(model, batches) -> tuple[float, float]:
    """Per cent of the classes that are told right, and the mean cross entropy, which tells small differences sooner."""
    right = loss = count = 0
    with torch.no_grad():
        for x, y in batches:
            scores = model(x)
            right += (scores.argmax(1) == y).sum().item()
            loss += F.cross_entropy(scores, y, reduction="sum").item()
            count += len(y)
    return 100 * right / count, loss / count


def classify(model, size: int, seed: int, steps: int, transformer: bool = False) -> tuple[float, float]:
    x, y, xt, yt, grow = digits(size, seed)
    if transformer:
        rate = 1e-3
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    else:
        rate = 0.05
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    rows = shuffled(len(y), BATCH)

    def loss():
        picked = next(rows)
        return F.cross_entropy(model(grow(x[picked])), y[picked])

    optimize(model, optimizer, rate, steps, loss)
    return told_right(model, ((grow(a), b) for a, b in zip(xt.split(200), yt.split(200))))


def source_text(pattern: str, files: int) -> torch.Tensor:
    """Bytes of the standard library's own source."""
    folder = pathlib.Path(json.__file__).parent.parent
    text = b"".join(f.read_bytes() for f in sorted(folder.glob(pattern))[:files])
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def write(steps: int) -> tuple[float, float]:
    """The next byte of source text: bits a byte, twice."""
    data = source_text("*.py", 60)
    train, test = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]
    model = GPT(context=CONTEXT)

    def loss_at(source, starts):
        rows = torch.stack([source[s : s + CONTEXT + 1] for s in starts])
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def loss():
        return loss_at(train, torch.randint(len(train) - CONTEXT - 1, (16,)).tolist())

    optimize(model, torch.optim.AdamW(model.parameters(), lr=2e-3), 2e-3, steps, loss)
    with torch.no_grad():
        starts = torch.linspace(0, len(test) - CONTEXT - 1, 256).long().tolist()
        bits = sum(loss_at(test, starts[i : i + 32]).item() for i in range(0, 256, 32)) / 8 / math.log(2)
    return bits, bits


def read(steps: int) -> tuple[float, float]:
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

    def loss():
        x, y = pieces(trains, BATCH)
        return F.cross_entropy(model(x), y)

    optimize(model, torch.optim.AdamW(model.parameters(), lr=1e-3), 1e-3, steps, loss)
    torch.manual_seed(1)
    return told_right(model, [pieces(tests, 128) for _ in range(8)])


def denoise(seed: int, steps: int) -> tuple[float, float]:
    """Digits out of noise of their own size: the peak signal-to-noise ratio in dB, and the mean squared error."""
    x, _, xt, _, grow = digits(32, seed)
    model = UNet()
    rows = shuffled(len(x), 16)

    def loss():
        clean = grow(x[next(rows)])
        return F.mse_loss(model(clean + torch.randn_like(clean)), clean)

    optimize(model, torch.optim.AdamW(model.parameters(), lr=2e-3), 2e-3, steps, loss)
    torch.manual_seed(1)
    squares = count = 0
    with torch.no_grad():
        for part in xt.split(100):
            clean = grow(part)
            squares += (model(clean + torch.randn_like(clean)) - clean).square().sum().item()
            count += clean.numel()
    return 10 * math.log10(4 * count / squares), squares / count  # values lie in [-1, 1]


def main():
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    random.seed(seed)
    begin = time.perf_counter()
    metric, loss = {
        "cnn": lambda: classify(cnn(), 16, seed, steps),
        "resnet18": lambda: classify(resnet18(), 32, seed, steps),
        "vit": lambda: classify(ViT(), 32, seed, steps, transformer=True),
        "gpt": lambda: write(steps),
        "bert": lambda: read(steps),
        "unet": lambda: denoise(seed, steps),
    }[name]()
    print(json.dumps({"metric": metric, "loss": loss, "seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main()
