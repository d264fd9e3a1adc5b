# SPDX-License-Identifier: Apache-2.0
"""Trains a byte-level GPT on the source text of Python's own standard library.

Every tenth file is held out; the score is bits per byte on them.

    python examples/stdlib_gpt.py --steps 160 --json metrics.json
"""

import argparse
import json
import math
import pathlib
import statistics
import sysconfig
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Causal multi-head self-attention with one fused projection for q, k and v."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, dim))


class Block(nn.Module):
    """Pre-norm transformer block."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, layers: int, dim: int, heads: int, context: int):
        super().__init__()
        self.bytes = nn.Embedding(256, dim)
        self.positions = nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 256, bias=False)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.bytes(tokens) + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def load_data():
    """Returns (train bytes, validation bytes) as uint8 tensors."""
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    train, validation = bytearray(), bytearray()
    for number, file in enumerate(files):
        (validation if number % 10 == 9 else train).extend(file.read_bytes())
    return tuple(torch.frombuffer(text, dtype=torch.uint8) for text in (train, validation))


def random_batch(text, batch: int, context: int):
    starts = torch.randint(len(text) - context - 1, (batch, 1))
    windows = text[starts + torch.arange(context + 1)].long()
    return windows[:, :-1], windows[:, 1:]


def loss_of(model, tokens, targets):
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def bits_per_byte(model, text, batch: int, context: int, batches: int) -> float:
    """Mean over `batches` batches of windows spread evenly over `text`."""
    model.eval()
    starts = torch.linspace(0, len(text) - context - 2, batch * batches).long().unsqueeze(1)
    windows = text[starts + torch.arange(context + 1)].long()
    with torch.no_grad():
        losses = [loss_of(model, w[:, :-1], w[:, 1:]).item() for w in windows.split(batch)]
    return statistics.mean(losses) / math.log(2)


def memory_bytes(field: str) -> int:
    """A field of /proc/self/status in bytes: VmRSS is memory now, VmHWM is its peak so far."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--validation-batches", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE", help="write metrics to FILE")
    args = parser.parse_args()

    # Growth of memory is counted from here: after imports, before data, model and optimizer.
    rss_after_imports = memory_bytes("VmRSS")

    torch.manual_seed(args.seed)
    train, validation = load_data()
    model = GPT(args.layers, args.dim, args.heads, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1, cycle_momentum=False
    )

    losses, step_seconds = [], []
    train_start = time.perf_counter()
    for step in range(args.steps):
        step_start = time.perf_counter()
        loss = loss_of(model, *random_batch(train, args.batch, args.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        step_seconds.append(time.perf_counter() - step_start)
        if (step + 1) % 10 == 0:
            print(f"step {step + 1}/{args.steps}: loss {statistics.mean(losses[-10:]):.4f}", flush=True)
    train_seconds = time.perf_counter() - train_start

    score = bits_per_byte(model, validation, args.batch, args.context, args.validation_batches)
    print(f"validation {score:.4f} bits per byte, {train_seconds:.1f} s of training")

    if args.json:
        peak_rss = memory_bytes("VmHWM")
        metrics = {
            "validation_bits_per_byte": score,
            "losses": losses,
            "train_seconds": train_seconds,
            "median_step_seconds": statistics.median(step_seconds),
            "steps": len(step_seconds),
            "peak_rss_bytes": peak_rss,
            "peak_rss_growth_bytes": peak_rss - rss_after_imports,
        }
        with open(args.json, "w") as file:
            json.dump(metrics, file, indent=2)


if __name__ == "__main__":
    main()
