# SPDX-License-Identifier: Apache-2.0
"""Trains one of the small models on real data and prints what became of it, as a line of JSON. fidelity.py runs it.

    train_small.py MODEL SEED STEPS [nudged]

nudged: one weight's last bit is another one at the beginning.
"""

import collections
import json
import math
import pathlib
import random
import re
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F

from small_diffusion import DiffusionUNet, noisy
from small_models import GPT, LSTM, Classifier, Llama, UNet, ViT, attention_written_out, cnn, convnext, digits, resnet18

CONTEXT = 96
BATCH = 32
WORDS = 8191  # odd, as GPT-2's vocabulary is


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


PLACES = 9


def moved(images: torch.Tensor, place: int) -> torch.Tensor:
    """`images` at one of PLACES: as they are, or half a pixel of the digits' own 8 x 8 away in one of eight directions."""
    height, width = images.shape[2:]
    by = height // 16
    wide = F.pad(images, (by,) * 4, mode="replicate")
    down, right = by * (place // 3), by * (place % 3)
    return wide[:, :, down : down + height, right : right + width]


def classify(model, size: int, seed: int, optimizer=None) -> Task:
    """Digits at random places; tested on each test image at every place, since the images are only a few hundred."""
    x, y, xt, yt, grow = digits(size, seed)
    rows = shuffled(len(y), BATCH)

    def batch():
        picked = next(rows)
        places = torch.randint(PLACES, (BATCH,)).tolist()
        return torch.cat([moved(image, place) for image, place in zip(grow(x[picked]).split(1), places)]), y[picked]

    def tested():
        pieces = [(grow(a), b) for a, b in zip(xt.split(200), yt.split(200))]
        return told_right(model, ((moved(a, place), b) for a, b in pieces for place in range(PLACES)))

    return Task(
        model,
        optimizer or torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4),
        batch,
        lambda batch: F.cross_entropy(model(batch[0]), batch[1]),
        tested,
    )


def source_text(pattern: str, files: int) -> torch.Tensor:
    """Bytes of the standard library's own source."""
    folder = pathlib.Path(json.__file__).parent.parent
    text = b"".join(f.read_bytes() for f in sorted(folder.glob(pattern))[:files])
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def bytes_of_source() -> torch.Tensor:
    return source_text("*.py", 60)


def words_of_source() -> torch.Tensor:
    """Its words, runs of blanks and single signs, by their rank among the WORDS most frequent ones; 0 stands for all that
    are rarer."""
    words = re.findall(r"\w+| +|\n|[^\w \n]", bytes(bytes_of_source().tolist()).decode())
    ranks = {word: rank for rank, (word, _) in enumerate(collections.Counter(words).most_common(WORDS - 1), 1)}
    return torch.tensor([ranks.get(word, 0) for word in words])


def gpt(eager: bool = False) -> torch.nn.Module:
    """@param eager With attention written out"""
    model = GPT(context=CONTEXT)
    if eager:
        for block in model.blocks:
            block.attention.attend = attention_written_out
    return model


def write(model, rate: float, data: torch.Tensor, skips_rare: bool = False) -> Task:
    """The next of `data`, a text's bytes or words: bits each, twice.
    @param skips_rare Words numbered 0 are not to be told"""
    train, test = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]

    def rows(source, starts):
        return torch.stack([source[s : s + CONTEXT + 1] for s in starts])

    def loss(rows):
        scores, targets = model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()
        if not skips_rare:
            return F.cross_entropy(scores, targets)
        # What counts is saved last, so that backward does not read the log-probabilities first.
        counts = (targets != 0).float()
        return (F.cross_entropy(scores, targets, reduction="none") * counts).sum() / counts.sum()

    def tested():
        starts = torch.linspace(0, len(test) - CONTEXT - 1, 256).long().tolist()
        bits = sum(loss(rows(test, starts[i : i + 32])).item() for i in range(0, 256, 32)) / 8 / math.log(2)
        return bits, bits

    def batch():
        return rows(train, torch.randint(len(train) - CONTEXT - 1, (16,)).tolist())

    return Task(model, adamw(model, rate), batch, loss, tested)


PACKAGES = ("asyncio", "email", "json", "logging", "multiprocessing", "unittest", "xml", "ctypes")


def pieces_of_packages(length: int):
    """Two functions that draw so many pieces of PACKAGES' source, of `length` bytes, and which package each is from: one
    for training, one from each package's last fifth for tests."""

    def drawing(part):
        def draw(count: int):
            classes = torch.randint(len(PACKAGES), (count,))
            starts = [int(torch.randint(len(part[c]) - length, ()).item()) for c in classes]
            return torch.stack([part[c][s : s + length] for c, s in zip(classes, starts)]), classes

        return draw

    sources = [source_text(f"{package}/**/*.py", 40) for package in PACKAGES]
    cuts = [int(len(data) * 0.8) for data in sources]
    return drawing([data[:cut] for data, cut in zip(sources, cuts)]), drawing([data[cut:] for data, cut in zip(sources, cuts)])


def read() -> Task:
    """From which package of the standard library a piece of source is."""
    train, test = pieces_of_packages(CONTEXT)
    model = Classifier(classes=len(PACKAGES), context=CONTEXT)

    def tested():
        torch.manual_seed(1)
        return told_right(model, [test(128) for _ in range(32)])

    def loss(batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return Task(model, adamw(model, 1e-3), lambda: train(BATCH), loss, tested)


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


def diffuse(seed: int) -> Task:
    """The noise in noisy digits: the mean squared error, twice."""
    x, _, xt, _, grow = digits(32, seed)
    model = DiffusionUNet()
    rows = shuffled(len(x), 16)

    def with_noise(clean):
        return clean, torch.rand(len(clean)), torch.randn_like(clean)

    def loss(batch):
        clean, time, noise = batch
        return F.mse_loss(model(noisy(clean, time, noise), time), noise)

    def tested():
        """Each test image at six times, with another noise each time."""
        torch.manual_seed(1)
        squares = 0
        for part in xt.repeat(6, 1, 1, 1).split(90):
            squares += loss(with_noise(grow(part))).item() * len(part)
        mean = squares / (6 * len(xt))
        return mean, mean

    return Task(model, adamw(model, 2e-3), lambda: with_noise(grow(x[next(rows)])), loss, tested)


def with_adamw(model, rate: float, seed: int) -> Task:
    return classify(model, 32, seed, adamw(model, rate))


# By name; the seed is of the split of the data. Initial weights come from torch's own generator.
TASKS: dict[str, Callable[[int], Task]] = {
    "cnn": lambda seed: classify(cnn(), 16, seed),
    "resnet18": lambda seed: classify(resnet18(), 32, seed),
    "convnext": lambda seed: with_adamw(convnext(), 2e-3, seed),
    "vit": lambda seed: with_adamw(ViT(), 1e-3, seed),
    "gpt": lambda seed: write(gpt(), 2e-3, bytes_of_source()),
    "gpt_eager": lambda seed: write(gpt(eager=True), 2e-3, bytes_of_source()),
    "gpt_words": lambda seed: write(GPT(context=CONTEXT, vocabulary=WORDS), 2e-3, words_of_source(), skips_rare=True),
    "llama": lambda seed: write(Llama(context=CONTEXT), 2e-3, bytes_of_source()),
    "lstm": lambda seed: write(LSTM(), 1e-2, bytes_of_source()),
    "bert": lambda seed: read(),
    "unet": denoise,
    "diffusion": diffuse,
}


def train(of: Task, steps: int) -> None:
    rate = of.optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(of.optimizer, rate, total_steps=steps)
    for _ in range(steps):
        loss = of.loss(of.batch())
        of.optimizer.zero_grad()
        loss.backward()
        of.optimizer.step()
        schedule.step()


def nudge(model: torch.nn.Module) -> None:
    """Changes the last bit of a weight."""
    weight = next(model.parameters()).data.view(-1)[0]
    weight.copy_(torch.nextafter(weight, torch.tensor(math.inf)))


def main(tasks=TASKS):
    name, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    random.seed(seed)
    chosen = tasks[name](seed)
    if sys.argv[4:] == ["nudged"]:
        nudge(chosen.model)
    begin = time.perf_counter()
    train(chosen, steps)
    seconds = time.perf_counter() - begin
    chosen.model.eval()
    with torch.no_grad():
        metric, loss = chosen.tested()
    print(json.dumps({"metric": metric, "loss": loss, "seconds": seconds, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
