#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves what autograd keeps while the example models train, for codec_bench --activations.

    .venv/bin/python tests/bench/dump_activations.py [--output build/activations] [--steps 16]

Both examples' models train for a few steps from scratch; then one forward each, and one more under
bfloat16 autocast, under torch.autograd.graph.saved_tensors_hooks. Every tensor goes to a file of its
own, elements in memory order and little-endian; index.json says for each its `name`, `file`, `type`
(as Cinch names types), `shape`, `kind` (what codec_bench may try on it), `from` (the module that
saved it), `layout` (the fields of codecs::PlaneLayout: (N, C, H, W) has a plane per sample and
channel, everything else a row per slice of the last dimension), and for max-pooling indices
`index_extent`, the pooling input's plane.
"""

import argparse
import contextlib
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import digits_cnn  # noqa: E402
import stdlib_gpt  # noqa: E402

TYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.bool: "bool", torch.int64: "int64"}


class Recorder:
    """While entered, keeps what each innermost module's forward saves, in the order of saving."""

    def __init__(self, model):
        self.saved = {}
        self._names = {module: name for name, module in model.named_modules()}
        self._running = []
        self._context = contextlib.ExitStack()

    def _pack(self, tensor):
        if self._running and not isinstance(tensor, nn.Parameter):
            self.saved.setdefault(self._running[-1], []).append(tensor.detach())
        return tensor

    def __enter__(self):
        for module, name in self._names.items():
            before = module.register_forward_pre_hook(lambda *_, name=name: self._running.append(name))
            after = module.register_forward_hook(lambda *_: void(self._running.pop()))
            self._context.callback(before.remove)
            self._context.callback(after.remove)
        self._context.enter_context(torch.autograd.graph.saved_tensors_hooks(self._pack, lambda t: t))
        return self

    def __exit__(self, *exception):
        return self._context.__exit__(*exception)


def void(_):
    """A forward hook's result would replace the module's."""


class NativeDropout(nn.Module):
    """Dropout that saves a bool mask, as it does on CUDA; the CPU's own saves float noise."""

    def forward(self, x):
        return torch.native_dropout(x, 0.1, True)[0]


class ExplicitAttention(nn.Module):
    """stdlib_gpt's attention without the fused kernel: softmax and dropout save what they do."""

    def __init__(self, fused):
        super().__init__()
        self.heads, self.qkv, self.out = fused.heads, fused.qkv, fused.out
        self.softmax, self.mask_dropout, self.noise_dropout = nn.Softmax(-1), NativeDropout(), nn.Dropout(0.1)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(2, 3) * (dim // self.heads) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = self.softmax(scores.masked_fill(future, -torch.inf))
        y = (self.mask_dropout(weights) @ v).transpose(1, 2).reshape(batch, length, dim)
        return self.noise_dropout(self.out(y))


def train(parameters, steps, batch_loss, lr):
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    for _ in range(steps):
        loss = batch_loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def operand(tensors, width, type=torch.float32):
    """The first tensor with rows of `width`: not the operator's weight, nor its statistics."""
    return next(t for t in tensors if t.dim() > 1 and t.shape[-1] == width and t.dtype == type)


class Writer:
    """Files and index of one output folder."""

    def __init__(self, folder, megabytes):
        self._folder = folder
        self._limit = megabytes << 20
        self._index = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name, kind, origin, tensor, planes=False, index_extent=None):
        """Writes `tensor`, or as much of its first dimension as the limit lets through."""
        slices = max(1, self._limit // (tensor[0].numel() * tensor.element_size()))
        tensor = tensor[:slices].contiguous()
        file = name + ".bin"
        tensor.view(torch.uint8).numpy().tofile(self._folder / file)
        entry = {
            "name": name,
            "file": file,
            "type": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "kind": kind,
            "from": origin,
            "layout": plane_layout(tensor.shape, planes),
        }
        if index_extent:
            entry["index_extent"] = index_extent
        self._index.append(entry)

    def close(self):
        (self._folder / "index.json").write_text(json.dumps({"version": 1, "tensors": self._index}, indent=1) + "\n")
        for entry in self._index:
            count = entry["layout"]["outer"] * entry["layout"]["inner"]
            extent = "x".join(str(n) for n in entry["layout"]["extent"][1:])
            print(f"{entry['name']:32} {entry['type']:9} {count:7} of {extent:8} {entry['from']}")


def plane_layout(shape, planes):
    """Layout of a contiguous tensor of `shape`, as codecs::PlaneLayout has it."""
    height, width = shape[-2:] if planes else (1, shape[-1])
    inner = shape[1] if planes else 1
    size = height * width
    count = 1
    for n in shape:
        count *= n
    return {
        "outer": count // (size * inner),
        "inner": inner,
        "outer_stride": size * inner,
        "inner_stride": size,
        "extent": [1, height, width],
        "stride": [size, width, 1],
    }


def dump_digits(writer, steps, batch):
    images, labels, *_ = digits_cnn.load_data(seed=0)
    model = digits_cnn.ResNet(32, [2, 2, 2, 1])

    def batch_loss():
        chosen = torch.randint(len(labels), (batch,))
        return F.cross_entropy(model(digits_cnn.enlarge(images[chosen], 64)), labels[chosen])

    train(model.parameters(), steps, batch_loss, 4e-3)
    with Recorder(model) as recorder:
        batch_loss()
    saved = recorder.saved

    def planes(name, kind, module, side, type=torch.float32, suffix="", index_extent=None):
        tensor = operand(saved[module], side, type)
        writer.add(f"{name}_{side}x{side}{suffix}", kind, module, tensor, planes=True, index_extent=index_extent)

    for side, block in {64: "features.4", 32: "features.10", 8: "features.21"}.items():
        planes("conv_input", "nonnegative", f"{block}.body.3", side)
        planes("batch_norm_input", "values", f"{block}.body.4", side)
    planes("relu_output", "relu", "features.4.activation", 64)
    planes("pool_index", "index", "features.5", 32, torch.int64, index_extent=[1, 64, 64])

    with Recorder(model) as recorder, torch.autocast("cpu", torch.bfloat16):
        batch_loss()
    saved = recorder.saved
    planes("conv_input", "nonnegative", "features.4.body.3", 64, torch.bfloat16, "_bf16")


def dump_gpt(writer, steps, batch, context):
    text, _ = stdlib_gpt.load_data()
    model = stdlib_gpt.GPT(layers=3, dim=256, heads=8, context=context)

    def batch_loss(size):
        return stdlib_gpt.loss_of(model, *stdlib_gpt.random_batch(text, size, context))

    train(model.parameters(), steps, lambda: batch_loss(min(batch, 8)), 5e-4)
    # Block 0 as it is, with the fused kernel; block 1 in separate operators.
    model.blocks[1].attention = ExplicitAttention(model.blocks[1].attention)
    with Recorder(model) as recorder:
        batch_loss(batch)
    saved = recorder.saved

    def rows(name, kind, module, width, type=torch.float32, suffix=""):
        writer.add(f"{name}_{width}{suffix}", kind, module, operand(saved[module], width, type))

    rows("layer_norm_input", "values", "blocks.1.norm1", 256)
    rows("linear_input", "values", "blocks.1.attention.qkv", 256)
    rows("gelu_input", "values", "blocks.1.mlp.1", 1024)
    rows("linear_input", "values", "blocks.1.mlp.2", 1024)
    fused = [t for t in saved["blocks.0.attention"] if t.dim() == 4]
    for part, tensor in zip(("q", "k", "v", "out"), fused, strict=True):
        # Heads side by side again, as they lie in memory.
        writer.add(f"attention_{part}_256", "attention", "blocks.0.attention", tensor.transpose(1, 2).flatten(2))
    rows("softmax_output", "nonnegative", "blocks.1.attention.softmax", context)
    rows("dropout_noise", "mask", "blocks.1.attention.noise_dropout", 256)
    rows("dropout_mask", "mask", "blocks.1.attention.mask_dropout", context, torch.bool)

    with Recorder(model) as recorder, torch.autocast("cpu", torch.bfloat16):
        batch_loss(batch)
    saved = recorder.saved
    rows("linear_input", "values", "blocks.1.attention.qkv", 256, torch.bfloat16, "_bf16")
    rows("gelu_input", "values", "blocks.1.mlp.1", 1024, torch.bfloat16, "_bf16")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/activations"))
    parser.add_argument("--steps", type=int, default=16, help="training steps that go before")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=256, help="tokens a sequence")
    parser.add_argument("--megabytes", type=int, default=16, help="most that one tensor may take")
    options = parser.parse_args()

    torch.manual_seed(0)
    writer = Writer(options.output, options.megabytes)
    dump_digits(writer, options.steps, options.batch)
    dump_gpt(writer, options.steps, options.batch, options.context)
    writer.close()


if __name__ == "__main__":
    main()
