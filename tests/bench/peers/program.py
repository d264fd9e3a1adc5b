# SPDX-License-Identifier: Apache-2.0
"""Trains a small model on real data. peers.py runs it as it is, and with the changes that its variants need.

    program.py MODEL SEED STEPS OUT.json

Training takes batches so large that activations are most of what is added to the process's memory.
"""

import dataclasses
import json
import math
import sys
import time
from collections.abc import Callable

import sklearn.datasets  # noqa: F401 - the helpers below import these when called, after memory is first looked at
import sklearn.model_selection  # noqa: F401
import torch
import torch.nn.functional as F
import torchvision.models.resnet  # noqa: F401
from torch import nn

from saved_bytes import SavedBytes, memory_bytes
from small_models import GPT, Classifier, UNet, ViT, cnn, digits, resnet18
from train_small import PACKAGES, pieces_of_packages, shuffled, source_text, told_right


@dataclasses.dataclass(frozen=True)
class Task:
    """A model, the loss of its next training batch, and its score on test data."""

    model: nn.Module
    rate: float
    loss: Callable
    score: Callable


def classify(model: nn.Module, rate: float, batch: int, seed: int) -> Task:
    """Digits at 32 x 32; test accuracy in %."""
    x, y, xt, yt, grow = digits(32, seed)
    rows = shuffled(len(y), batch)

    def loss(model):
        picked = next(rows)
        return F.cross_entropy(model(grow(x[picked])), y[picked])

    return Task(model, rate, loss, lambda m: told_right(m, ((grow(a), b) for a, b in zip(xt.split(100), yt.split(100))))[0])


def convolutions(seed: int) -> Task:
    return classify(cnn(), 1e-2, 256, seed)


def resnet(seed: int) -> Task:
    return classify(resnet18(), 1e-2, 128, seed)


def vit(seed: int) -> Task:
    return classify(ViT(), 3e-3, 128, seed)


def gpt(seed: int) -> Task:
    """The next byte of the standard library's source; test bits a byte."""
    context, batch = 128, 48
    data = source_text("*.py", 60)
    train, test = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]

    def loss_at(model, source, starts):
        rows = torch.stack([source[s : s + context + 1] for s in starts])
        return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    def loss(model):
        return loss_at(model, train, torch.randint(len(train) - context - 1, (batch,)).tolist())

    def score(model):
        starts = torch.linspace(0, len(test) - context - 1, 128).long().tolist()
        return sum(loss_at(model, test, starts[i : i + 32]).item() for i in range(0, 128, 32)) / 4 / math.log(2)

    return Task(GPT(dim=128, heads=4, layers=4, context=context), 3e-3, loss, score)


def bert(seed: int) -> Task:
    """From which package of the standard library a piece of source is; test accuracy in %."""
    context = 128
    train, test = pieces_of_packages(context)

    def loss(model):
        pieces, packages = train(128)
        return F.cross_entropy(model(pieces), packages)

    def score(model):
        torch.manual_seed(1)
        return told_right(model, [test(128) for _ in range(16)])[0]

    return Task(Classifier(len(PACKAGES), layers=4, context=context), 3e-3, loss, score)


def unet(seed: int) -> Task:
    """Digits out of noise of their own size, at 32 x 32; test peak signal-to-noise ratio in dB."""
    x, _, xt, _, grow = digits(32, seed)
    rows = shuffled(len(x), 160)

    def loss(model):
        clean = grow(x[next(rows)])
        return F.mse_loss(model(clean + torch.randn_like(clean)), clean)

    def score(model):
        torch.manual_seed(1)
        clean = grow(xt)
        noisy = clean + torch.randn_like(clean)
        restored = torch.cat([model(part) for part in noisy.split(100)])
        return 10 * math.log10(4 / F.mse_loss(restored, clean).item())  # values lie in [-1, 1]

    return Task(UNet(), 5e-3, loss, score)


TASKS = {"cnn": convolutions, "resnet": resnet, "gpt": gpt, "bert": bert, "vit": vit, "unet": unet}


def main():
    name, seed, steps, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    after_imports = memory_bytes("VmRSS")
    torch.manual_seed(seed)
    task = TASKS[name](seed)
    model = task.model
    optimizer = torch.optim.AdamW(model.parameters(), lr=task.rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, task.rate, total_steps=steps, cycle_momentum=False)

    def backward():
        optimizer.zero_grad()
        loss = task.loss(model)
        loss.backward()
        return loss.item()

    losses, seconds = [], []
    for _ in range(steps):
        start = time.perf_counter()
        losses.append(backward())
        optimizer.step()
        schedule.step()
        seconds.append(time.perf_counter() - start)
    peak_rss = memory_bytes("VmHWM")

    model.eval()
    with torch.no_grad():
        metric = task.score(model)
    model.train()
    with SavedBytes(model.parameters()) as saved:
        backward()
    figures = {
        "metric": metric,
        "loss": losses[-1],
        "step_seconds": seconds,
        "saved_bytes": saved.peak,
        "peak_rss_bytes": peak_rss,
        "peak_rss_growth_bytes": peak_rss - after_imports,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    with open(out, "w") as file:
        json.dump(figures, file)


if __name__ == "__main__":
    main()
