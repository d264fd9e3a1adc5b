# SPDX-License-Identifier: Apache-2.0
"""Transformers, and what is written by hand in them."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads.derived.models import Attention, Autocast, Block, STEPS, images, sequences, train
from workloads.registry import workload


@workload
def transformer():
    return train(nn.Sequential(*[Block(24) for _ in range(3)], nn.LayerNorm(24), nn.Linear(24, 5)), sequences)


@workload
def transformer_without_biases():
    norm = {"bias": False}
    gelu = lambda x: F.gelu(x, approximate="tanh")
    return train(nn.Sequential(*[Block(24, gelu, **norm) for _ in range(3)], nn.Linear(24, 5)), sequences)


@workload
def transformer_with_plain_norms():
    norm = {"elementwise_affine": False}
    return train(nn.Sequential(*[Block(24, F.silu, **norm) for _ in range(2)], nn.Linear(24, 5)), sequences)


@workload
def masked_attention():
    return train(nn.Sequential(*[Attention(24) for _ in range(3)], nn.Linear(24, 5)), sequences)


@workload
def attention_in_bfloat16():
    model = nn.Sequential(*[Block(24) for _ in range(2)], nn.Linear(24, 5)).bfloat16()
    return train(model, lambda: sequences().bfloat16())


@workload
def attention_read_by_two_backwards():
    model = nn.Sequential(*[Block(24) for _ in range(2)], nn.Linear(24, 5))
    parameters, values = list(model.parameters()), {}
    for step in range(STEPS):
        loss = model(sequences()).square().mean()
        for again in range(2):
            found = torch.autograd.grad(loss, parameters, retain_graph=not again)
            values |= {f"{step}.{again}.{i}": gradient for i, gradient in enumerate(found)}
    return values


@workload
def attention_reads_what_changes_later():
    """Only in some steps: backward raises there."""
    model, values = nn.ModuleList([nn.Linear(24, 24) for _ in range(2)]), {}
    for step in range(2 * STEPS):
        x = model[0](sequences()).view(3, 17, 2, 12).transpose(1, 2)
        loss = model[1](F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(2)).sum()
        if step % 3 == 2:
            with torch.no_grad():
                x.mul_(2)
        try:
            values[f"{step}"] = torch.autograd.grad(loss, model[0].weight)[0]
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), error
            values[f"{step}"] = torch.zeros(1)
    return values


@workload
def transformer_under_autocast():
    return train(Autocast(*[Block(24) for _ in range(3)], nn.LayerNorm(24), nn.Linear(24, 5)), sequences)


@workload
def transformer_under_autocast_to_float16():
    layers = [*[Block(24, F.silu) for _ in range(2)], nn.LayerNorm(24), nn.Linear(24, 5)]
    return train(Autocast(*layers, dtype=torch.float16), sequences)


class Widened(nn.Module):
    """RMS norm and SwiGLU, written by hand."""

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        wide = x.float()
        y = self.scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@workload
def bfloat16_parameters():
    model = nn.Sequential(nn.Linear(24, 24), *[Widened(24) for _ in range(3)], nn.Linear(24, 5)).bfloat16()
    return train(model, lambda: sequences().bfloat16(), loss=lambda y: y.float().square().mean())


@workload
def dropout():
    """By a product with noise on the CPU; the second run draws other noise."""
    layers = [nn.Linear(24, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 24), nn.LayerNorm(24), nn.Dropout(0.1)]
    return train(nn.Sequential(*layers, nn.Linear(24, 5)), sequences)


class EagerAttention(nn.Module):
    """Written by hand, as older programs have it."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = F.dropout((q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1), 0.2, self.training)
        return x + self.out(weights @ v)


@workload
def eager_attention():
    return train(nn.Sequential(EagerAttention(24), EagerAttention(24), nn.Linear(24, 5)), sequences)


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Gated(nn.Module):
    """A block as LLaMA has it, without its attention."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = RMSNorm(width)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@workload
def gated_blocks():
    return train(nn.Sequential(*[Gated(24) for _ in range(3)], RMSNorm(24), nn.Linear(24, 5)), sequences)


@workload
def gates_of_one_layer():
    """The gate, and what passes it, are halves of one layer's result, as GEGLU and SwiGLU have it."""

    class Gate(nn.Module):
        def __init__(self, activation):
            super().__init__()
            self.norm, self.inner, self.outer = nn.LayerNorm(24), nn.Linear(24, 96), nn.Linear(48, 24)
            self.activation = activation

        def forward(self, x):
            value, gate = self.inner(self.norm(x)).chunk(2, -1)
            return x + self.outer(value * self.activation(gate))

    return train(nn.Sequential(Gate(nn.functional.gelu), Gate(nn.functional.silu), nn.Linear(24, 5)), sequences)


def approximate_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


@workload
def gelu_by_hand():
    return train(nn.Sequential(*[Block(24, approximate_gelu) for _ in range(2)], nn.Linear(24, 5)), sequences)


@workload
def gelu_by_hand_under_autocast():
    return train(Autocast(*[Block(24, approximate_gelu) for _ in range(2)], nn.Linear(24, 5)), sequences)


@workload
def patches_in_another_order():
    """Rows of a transposed map, which a norm makes contiguous."""

    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.places = nn.Conv2d(3, 24, 4, stride=4), nn.Parameter(torch.randn(16, 24))
            self.blocks = nn.Sequential(Block(24), Block(24))

        def forward(self, x):
            return self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places)

    return train(Patches(), images)


class Transposed(nn.Module):
    """A layer over another dimension than the norm's: a copy of a view is saved."""

    def __init__(self):
        super().__init__()
        self.norm, self.over_time, self.last = nn.LayerNorm(24), nn.Linear(17, 17), nn.Linear(8, 24)

    def forward(self, x):
        x = x + self.over_time(self.norm(x).transpose(1, 2)).transpose(1, 2)
        first, *_ = self.norm(x).split(8, dim=2)
        third = self.norm(x)[:, 1::2].unflatten(2, (3, 8)).unbind(2)[2]
        return self.last(F.gelu(first).contiguous()).sum() + self.last(third.permute(1, 0, 2).contiguous()).sum()


@workload
def copies_of_views():
    return train(Transposed(), sequences, loss=lambda y: y)


@workload
def cached_keys():
    """What transformers' caches do in training: nothing, joined with keys and values."""

    class Attention(nn.Linear):
        def forward(self, x):
            query, key, value = super().forward(x).view(3, 17, 3, 2, 12).permute(2, 0, 3, 1, 4)
            key, value = (torch.cat([torch.tensor([]), each], dim=-2) for each in (key, value))
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return y.transpose(1, 2).reshape(3, 17, 24)

    return train(nn.Sequential(Attention(24, 72), Attention(24, 72)), sequences)


@workload
def sentences_of_all_lengths():
    model, values = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24)), {}
    for length in range(3, 60):
        loss = model(torch.randn(2, length, 24)).square().mean()
        values[f"{length}"] = torch.autograd.grad(loss, list(model.parameters())[0])[0]
    return values


class Window(nn.Module):
    """Attention of windows that are shifted, without the attention."""

    def __init__(self, shift):
        super().__init__()
        self.shift, self.norm, self.linear = shift, nn.LayerNorm(12), nn.Linear(12, 12)

    def forward(self, x):
        y = F.pad(self.norm(x), (0, 0, 0, 0, 0, 0))
        y = torch.roll(y, (-self.shift, self.shift), (1, 2)) if self.shift else y
        y = y.view(4, 2, 4, 2, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(16, 16, 12)
        y = self.linear(y).view(4, 2, 2, 4, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(4, 8, 8, 12)
        return x + torch.roll(y, (self.shift, -self.shift), (1, 2))


@workload
def shifted_windows():
    patches = lambda: torch.randn(4, 8, 8, 12)
    return train(nn.Sequential(Window(0), Window(3), Window(9), nn.Linear(12, 5)), patches)
