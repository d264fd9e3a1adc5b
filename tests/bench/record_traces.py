#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what trainings at realistic shapes ask of an allocator: traces for `cinch replay`.

    .venv/bin/python tests/bench/record_traces.py FOLDER [--model NAME…] [--steps 12]

The models run on PyTorch's meta device, where tensors have sizes and no memory: real autograd, real
lifetimes of activations, gradients and optimizer states, at shapes that this machine could not hold.
What kernels allocate inside (workspaces of cuDNN and the like) is not in the traces. Files are text;
`cinch replay --write OUT FILE` compresses one.
"""

import argparse
import pathlib
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Writes down when storages appear and when they are gone."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.live = {}  # by storage: its number and a weak reference
        self.count = 0

    def sweep(self):
        """Frees what is gone."""
        for key in [key for key, (_, ref) in self.live.items() if ref.expired()]:
            self.lines.append(f"f {self.live.pop(key)[0]}")

    def note(self, tensor):
        if tensor.device.type != "meta":  # the optimizer's step counts
            return
        storage = tensor.untyped_storage()
        if storage._cdata in self.live or storage.nbytes() == 0:
            return
        self.live[storage._cdata] = (self.count, StorageWeakRef(storage))
        self.lines.append(f"a {storage.nbytes()} 0")
        self.count += 1

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.sweep()
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.note(leaf)
        return result

    def end_step(self):
        self.sweep()
        self.lines.append("s")


def conv(inputs, outputs, size=3, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv(inputs, width, 1), nn.ReLU(True), conv(width, width, 3, stride), nn.ReLU(True), conv(width, 4 * width, 1)
        )
        self.skip = conv(inputs, 4 * width, 1, stride) if stride != 1 or inputs != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers, inputs = [conv(3, 64, 7, 2), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
                inputs = 4 * width
        self.features, self.head = nn.Sequential(*layers), nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        wide = inputs * expand
        self.keeps = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            *([conv(inputs, wide, 1), nn.ReLU6(True)] if expand > 1 else []),
            conv(wide, wide, 3, stride, wide), nn.ReLU6(True), conv(wide, outputs, 1),
        )  # fmt: skip

    def forward(self, x):
        return x + self.body(x) if self.keeps else self.body(x)


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inputs = [conv(3, 32, 3, 2), nn.ReLU6(True)], 32
        for expand, outputs, count, stride in (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        ):  # fmt: skip
            for i in range(count):
                layers.append(Inverted(inputs, outputs, stride if i == 0 else 1, expand))
                inputs = outputs
        self.features = nn.Sequential(*layers, conv(inputs, 1280, 1), nn.ReLU6(True))
        self.head = nn.Linear(1280, 1000)

    def forward(self, x):
        return self.head(F.dropout(self.features(x).mean((2, 3)), 0.2))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1), -1e9)
        attended = F.dropout(scores.softmax(-1), 0.1) @ v
        x = x + F.dropout(self.out(attended.transpose(1, 2).reshape(batch, length, width)), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


class Transformer(nn.Module):
    def __init__(self, words, width, heads, layers, longest, causal):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads, causal) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.words(tokens) + self.places(places))))


class UNet(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        double = lambda a, b: nn.Sequential(conv(a, b), nn.ReLU(True), conv(b, b), nn.ReLU(True))  # noqa: E731
        self.down = nn.ModuleList(double(a, b) for a, b in zip([3, *widths[:-1]], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths[:-1], widths[1:]))
        self.join = nn.ModuleList(double(b, a) for a, b in zip(widths[:-1], widths[1:]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([skips[i], self.up[i](x)], 1))
        return self.head(x)


class Detector(nn.Module):
    """A backbone over images of changing size, and heads over changing numbers of boxes."""

    def __init__(self):
        super().__init__()
        self.backbone = ResNet50().features
        self.neck, self.proposals = nn.Conv2d(2048, 256, 1), nn.Conv2d(256, 15, 3, padding=1)
        self.head = nn.Sequential(nn.Linear(256 * 49, 1024), nn.ReLU(True), nn.Linear(1024, 1024), nn.ReLU(True))
        self.classes, self.boxes = nn.Linear(1024, 91), nn.Linear(1024, 364)

    def forward(self, images, boxes):
        features = F.relu(self.neck(self.backbone(images)))
        regions = features.new_empty(boxes, 256, 7, 7) * features.mean()
        hidden = self.head(regions.flatten(1))
        return self.proposals(features).square().mean() + self.classes(hidden).square().mean() + self.boxes(hidden).abs().mean()


def images(batch, *size):
    return torch.empty(batch, 3, *size, device="meta")


def tokens(batch, length):
    return torch.empty(batch, length, dtype=torch.long, device="meta")


def classify(model, x):
    return F.cross_entropy(model(x), torch.empty(x.shape[0], dtype=torch.long, device="meta"))


def next_word(model, x):
    return F.cross_entropy(model(x).flatten(0, 1), x.flatten())


MODELS = {
    "resnet50": (ResNet50, lambda model, draw: classify(model, images(64, 224, 224))),
    "mobilenet_v2": (MobileNetV2, lambda model, draw: classify(model, images(96, 224, 224))),
    "gpt_varying_length": (
        lambda: Transformer(50257, 768, 12, 12, 1024, True),
        lambda model, draw: next_word(model, tokens(4, draw.randint(256, 1024))),
    ),
    "bert_dynamic_padding": (
        lambda: Transformer(30522, 768, 12, 12, 512, False),
        lambda model, draw: next_word(model, tokens(32, max(draw.randint(16, 384) for _ in range(4)))),
    ),
    "unet": (UNet, lambda model, draw: model(images(4, 512, 512)).square().mean()),
    "detector_varying_boxes": (
        Detector,
        lambda model, draw: model(
            images(2, 32 * draw.randint(20, 25), 32 * draw.randint(20, 42)), draw.randint(100, 1024)
        ),
    ),
}


def record(name, steps):
    """The trace's text."""
    build, loss_of = MODELS[name]
    draw = random.Random(name)
    with Recorder() as recorder:
        with torch.device("meta"):
            model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
        recorder.end_step()
        for _ in range(steps):
            loss_of(model, draw).backward()
            optimizer.step()
            optimizer.zero_grad()
            recorder.end_step()
    title = f"{name}, {steps} steps of AdamW on the meta device, torch {torch.__version__.split('+')[0]}"
    return "\n".join(["cinch-trace 1", f"# {title}", *recorder.lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.model:
        text = record(name, args.steps)
        (args.folder / f"{name}.trace").write_text(text)
        print(f"{name}: {text.count(chr(10) + 'a ')} allocations", flush=True)


if __name__ == "__main__":
    main()
