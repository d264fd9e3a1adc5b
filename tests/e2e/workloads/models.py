# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks, trained a few steps each."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from workloads.registry import workload
from workloads.training import train


def cross_entropy(classes: int = 10):
    def loss_of(output):
        return F.cross_entropy(output, torch.arange(len(output)) % classes)

    return loss_of


def mean_square(output):
    return output.square().mean()


class ConvNet(nn.Module):
    """In-place ReLU, BatchNorm, max- and average-pool, dropout, a residual sum that is activated in place."""

    def __init__(self, dropout: float = 0.2):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2)
        )
        self.body = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Conv2d(16, 16, 3, padding=1)
        )
        self.activation = nn.ReLU(inplace=True)
        self.tail = nn.Sequential(
            nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=2), nn.ReLU(), nn.Dropout(dropout)
        )
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        x = self.activation(self.body(x) + x)
        return self.head(self.tail(x).mean(dim=(2, 3)))


class Block(nn.Module):
    """Pre-norm transformer block: fused q, k, v; scaled dot-product attention; dropout."""

    def __init__(self, dim: int = 64, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(b, t, d)), self.dropout)
        return x + self.mlp(self.norm2(x))


class Recurrent(nn.Module):
    """A recurrent network's last hidden state, classified."""

    def __init__(self, kind):
        super().__init__()
        self.cells = kind(12, 24, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(24, 10)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


bf16_autocast = functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16)


@workload
def mlp():
    model = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Dropout(0.3), nn.Linear(64, 64), nn.Sigmoid(),
        nn.Linear(64, 10), nn.LogSoftmax(dim=1),
    )  # fmt: skip
    return train(model, [torch.randn(48, 32)], lambda y: F.nll_loss(y, torch.arange(48) % 10))


@workload
def convolutional():
    return train(ConvNet(), [torch.randn(8, 3, 32, 32)], cross_entropy())


@workload
def convolutional_channels_last():
    model = ConvNet().to(memory_format=torch.channels_last)
    x = torch.randn(8, 3, 32, 32).to(memory_format=torch.channels_last)
    return train(model, [x], cross_entropy())


@workload
def convolutional_bf16_autocast():
    return train(ConvNet(), [torch.randn(8, 3, 32, 32)], cross_entropy(), context=bf16_autocast)


@workload
def convolutional_odd_sizes():
    """Planes smaller than a block and not a multiple of it, and a batch of one's worth of channels."""
    return train(ConvNet(), [torch.randn(3, 3, 21, 13)], cross_entropy())


@workload
def convolutional_1d_and_3d():
    model = nn.Sequential(
        nn.Conv1d(2, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Unflatten(2, (4, 4, 4)),
        nn.Conv3d(8, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(inplace=True), nn.MaxPool3d(2), nn.AvgPool3d(2),
        nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip
    return train(model, [torch.randn(6, 2, 128)], cross_entropy())


@workload
def up_and_down():
    """Transposed convolutions, group and instance norm, interpolation, overlapping max-pool windows."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.SiLU(), nn.MaxPool2d(3, stride=2, padding=1),
        nn.ConvTranspose2d(8, 8, 4, stride=2), nn.InstanceNorm2d(8, affine=True), nn.LeakyReLU(0.1),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveMaxPool2d(3), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    return train(model, [torch.randn(4, 1, 33, 33)], cross_entropy())


@workload
def transformer_with_dropout():
    return train(nn.Sequential(Block(), Block()), [torch.randn(4, 32, 64)], mean_square)


@workload
def transformer_fused_attention():
    return train(nn.Sequential(Block(dropout=0), Block(dropout=0)), [torch.randn(4, 32, 64)], mean_square)


@workload
def transformer_bf16_autocast():
    return train(
        nn.Sequential(Block(), Block(dropout=0)), [torch.randn(4, 32, 64)], mean_square, context=bf16_autocast
    )


@workload
def transformer_bf16_weights():
    model = nn.Sequential(Block(), Block(dropout=0)).to(torch.bfloat16)
    return train(model, [torch.randn(4, 32, 64, dtype=torch.bfloat16)], mean_square)


@workload
def transformer_library_layer():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
    return train(layer, [torch.randn(4, 16, 32)], mean_square)


@workload
def lstm():
    return train(Recurrent(nn.LSTM), [torch.randn(6, 9, 12)], cross_entropy())


@workload
def gru():
    return train(Recurrent(nn.GRU), [torch.randn(6, 9, 12)], cross_entropy())


@workload
def embeddings():
    """Integer inputs, tied weights, AdamW."""
    embedding = nn.Embedding(50, 32, padding_idx=0)
    head = nn.Linear(32, 50, bias=False)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), head)
    tokens = torch.arange(4 * 16).reshape(4, 16) % 50
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return train(
        model, [tokens], lambda y: F.cross_entropy(y.flatten(0, 1), tokens.flatten().roll(-1)), optimizer=optimizer
    )


@workload
def compiled_aot_eager():
    model = torch.compile(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)), backend="aot_eager")
    return train(model, [torch.randn(12, 16)], cross_entropy())


@workload
def compiled_aot_eager_dynamic_shapes():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 10))
    compiled = torch.compile(model, backend="aot_eager", dynamic=True)
    written = {}
    for batch in (5, 9, 12):
        for name, value in train(compiled, [torch.randn(batch, 16)], cross_entropy(), steps=1).items():
            written[f"{batch}.{name}"] = value
    return written


@workload
def evaluation_without_backward():
    """The graph is built and dropped."""
    model = ConvNet()
    outputs = [model(torch.randn(4, 3, 32, 32)).detach().clone() for _ in range(3)]
    return {f"output{i}": output for i, output in enumerate(outputs)}


def clamped_gate(both):
    """gpt-oss' experts: both halves of one storage are clamped, and what is computed of them is read."""
    gate, up = both[..., ::2].clamp(max=7), both[..., 1::2].clamp(-7, 7)
    return (up + 1) * (gate * torch.sigmoid(gate * 1.702))
