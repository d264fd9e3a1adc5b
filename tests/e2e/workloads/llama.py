# SPDX-License-Identifier: Apache-2.0
"""A Llama with PyTorch's own RMS norm, which transformers' does without; of tests/gpu too."""

import torch
import torch.nn.functional as F
from torch import nn


def rotated(x, cos, sin):
    """Rotary positions."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Block(nn.Module):
    """Grouped queries and SwiGLU."""

    def __init__(self, width: int, heads: int, groups: int):
        super().__init__()
        self.heads, self.size, hidden = heads, width // heads, 8 * width // 3 // 8 * 8
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, width + 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (-1, self.size)).transpose(1, 2)
        groups = (qkv.shape[1] - self.heads) // 2
        q, k, v = qkv.split([self.heads, groups, groups], dim=1)
        q, k = rotated(q, cos, sin).to(v.dtype), rotated(k, cos, sin).to(v.dtype)
        k, v = (part.repeat_interleave(self.heads // groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """A decoder of `vocabulary` tokens, of at most `length` at a time."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int, groups: int):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), nn.RMSNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, groups) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]])
        return self.head(self.norm(x))
