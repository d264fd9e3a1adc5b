# SPDX-License-Identifier: Apache-2.0
"""The operators of random programs: which operands they take, and what is called.

Values stay within a few orders of magnitude of 1, so that a wrong bit shows in what is computed from them.
"""

import dataclasses
from typing import Callable

import torch
import torch.nn.functional as F

from random_programs.operands import (
    Choice,
    Values,
    any_of,
    at_least_2d,
    at_least_3d,
    attended,
    by_eight,
    changeable,
    changeable_and_another,
    channels,
    even,
    few_columns,
    few_rows,
    float_image,
    four_groups,
    image,
    matrices,
    matrix,
    not_scalar,
    one,
    rows,
    samples,
    small,
    small_float_image,
    small_image,
    some_dim,
    two,
    wide,
    width,
    with_weights,
)


@dataclasses.dataclass(frozen=True)
class Operator:
    choose: Callable[[Values], Choice | None]
    """Gives the numbers of the operands, and parameters; None if no value suits."""
    apply: Callable[..., torch.Tensor]
    weight: float
    """How often it is chosen, beside others."""
    in_place: bool
    """Whether the result is the first operand, changed."""


OPERATORS: dict[str, Operator] = {}


def operator(name: str, choose, apply, weight: float = 1, in_place: bool = False):
    OPERATORS[name] = Operator(choose, apply, weight, in_place)


# Functions of one tensor.
for function in (
    torch.tanh, torch.sigmoid, torch.sin, torch.cos, torch.abs, torch.neg, torch.erf, torch.atan, torch.square,
    torch.clone, F.silu, F.softplus, F.elu, F.selu, F.hardswish, F.hardtanh, F.relu6, F.hardsigmoid, F.mish, F.celu,
    F.leaky_relu, F.softsign, F.tanhshrink, F.logsigmoid,
):  # fmt: skip
    operator(function.__name__, one(), function)
operator("relu", one(), F.relu, 4)
operator("gelu", one(), F.gelu, 2)
operator("gelu_tanh", one(), lambda x: F.gelu(x, approximate="tanh"))
operator("gelu_by_hand", one(), lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3.0)))))
operator("exp", one(), lambda x: x.clamp(-4, 2).exp())
operator("sqrt", one(), lambda x: (x.abs() + 0.5).sqrt())
operator("rsqrt", one(), lambda x: (x * x + 0.5).rsqrt())
operator("log", one(), lambda x: (x.abs() + 0.5).log())
operator("reciprocal", one(), lambda x: (x.abs() + 0.5).reciprocal())
operator("cube", one(), lambda x: (x * 0.5) ** 3)
operator("clamp", one(), lambda x: x.clamp(-0.5, 0.75))
operator("clamp_min", one(), lambda x: x.clamp(min=0.1))
operator("threshold", one(), lambda x: F.threshold(x, 0.1, 0.2))
operator("softshrink", one(), lambda x: F.softshrink(x, 0.2))
operator("dropout", one(), lambda x: F.dropout(x, 0.3))
operator("masked_fill", one(), lambda x: x.masked_fill(x > 1, 0.5))
operator("detach", one(), torch.detach, 0.1)
operator("softmax", one(at_least_2d, dim=some_dim), lambda x, dim: x.softmax(dim) * x.shape[dim])
operator("log_softmax", one(at_least_2d, dim=some_dim), lambda x, dim: x.log_softmax(dim))
operator("cumsum", one(at_least_2d, dim=some_dim), lambda x, dim: x.cumsum(dim) * 0.2)
operator("glu", one(lambda x: wide(x) and x.shape[-1] % 2 == 0), F.glu)
operator("own_function", one(), lambda x: Swish.apply(x))

# A tensor and a number.
operator("plus", one(by=any_of(1, 0.5, -2)), lambda x, by: x + by)
operator("minus", one(by=any_of(1, 0.5)), lambda x, by: x - by)
operator("from", one(by=any_of(1, 0.5)), lambda x, by: by - x)
operator("times", one(by=any_of(2, 0.5, -1)), lambda x, by: x * by)
operator("over", one(by=any_of(2, 0.75)), lambda x, by: x / by)

# Two tensors.
operator("add", two, lambda x, y: x + y, 3)
operator("sub", two, lambda x, y: x - y)
operator("mul", two, lambda x, y: x * y, 3)
operator("div", two, lambda x, y: x / (y.abs() + 0.5))
operator("maximum", two, torch.maximum, 2)
operator("minimum", two, torch.minimum)
operator("at_least", one(), lambda x: torch.maximum(x, torch.tensor(0.1, dtype=x.dtype, device=x.device)))
operator("where", two, lambda x, y: torch.where(x > 0.1, x, y.to(x.dtype)))
operator("addcmul", two, lambda x, y: torch.addcmul(x, y.to(x.dtype), x, value=0.5))
operator("lerp", two, lambda x, y: torch.lerp(x, y.to(x.dtype).expand_as(x), 0.3))
operator("swiglu", two, lambda x, y: F.silu(x) * y)
operator("cat", two, lambda x, y: torch.cat([x, y.to(x.dtype).expand_as(x)], -1) if x.dim() else x + y)
operator("stack", two, lambda x, y: torch.stack([x, y.to(x.dtype).expand_as(x)]) if x.dim() < 4 else x + y)

# Losses, element by element.
def loss(function, **parameters):
    return lambda x, y: function(x, y.to(x.dtype).expand_as(x), reduction="none", **parameters)


def cross_entropy(x):
    return F.cross_entropy(x, torch.arange(len(x), device=x.device) % x.shape[1], reduction="none")


operator("mse_loss", two, loss(F.mse_loss), 0.5)
operator("smooth_l1_loss", two, loss(F.smooth_l1_loss), 0.5)
operator("huber_loss", two, loss(F.huber_loss), 0.5)
operator("bce_with_logits", two, lambda x, y: loss(F.binary_cross_entropy_with_logits)(x, y.sigmoid()), 0.5)
operator("kl_div", two, lambda x, y: loss(F.kl_div, log_target=True)(x, y).clamp(-8, 8), 0.5)
operator("cross_entropy", one(lambda x: x.dim() == 2), cross_entropy, 0.5)


# Over a dimension.
def softmax_by_hand(x):
    exponentials = (x - x.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


def standardize(x):
    return (x - x.mean(-1, keepdim=True)) * (x.var(-1, keepdim=True) + 0.1).rsqrt()


operator("mean", one(at_least_2d, dim=some_dim), lambda x, dim: x.mean(dim, keepdim=True), 0.5)
operator("sum", one(at_least_2d, dim=some_dim), lambda x, dim: x.sum(dim) / x.shape[dim] ** 0.5, 0.3)
operator("amax", one(at_least_2d, dim=some_dim), lambda x, dim: x - x.amax(dim, keepdim=True), 2)
operator("amin", one(at_least_2d, dim=some_dim), lambda x, dim: x.amin((dim, (dim + 1) % x.dim())))
operator("max", one(), lambda x: x - x.max() * 0.1)
operator("logsumexp", one(at_least_2d, dim=some_dim), lambda x, dim: x - x.logsumexp(dim, keepdim=True), 0.5)
operator("norm", one(at_least_2d, dim=some_dim), lambda x, dim: x / (x.norm(dim=dim, keepdim=True) + 0.5))
operator("standardize", one(at_least_2d), standardize)
operator("std", one(at_least_2d, dim=some_dim), lambda x, dim: x / (x.std(dim, keepdim=True) + 0.5), 0.5)
operator("normalize", one(at_least_2d), lambda x: F.normalize(x, dim=-1), 0.5)
operator("softmax_by_hand", one(at_least_2d), softmax_by_hand)
operator("sort", one(at_least_2d), lambda x: x.sort(-1).values, 0.5)
operator("topk", one(wide), lambda x: x.topk(3, -1).values, 0.3)

def by_complex_numbers(x):
    z = torch.view_as_complex(x.float().contiguous().view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * z.conj() * 0.5 + z.exp() * 0.1).flatten(-2)


def turn_phases(x):
    return torch.fft.irfft(torch.fft.rfft(x) * (0.6 + 0.8j))


# Views and copies.
operator("transpose", one(at_least_2d), lambda x: x.transpose(-1, -2))
operator("movedim", one(at_least_3d), lambda x: x.movedim(0, -1))
operator("slice", one(wide), lambda x: x[..., 2:-1])
operator("rest", one(rows), lambda x: x[1:])
operator("select", one(at_least_3d, dim=some_dim), lambda x, dim: x.select(dim, 0), 0.5)
operator("chunk", one(wide), lambda x: x.chunk(2, -1)[1])
operator("unbind", one(at_least_3d), lambda x: x.unbind(0)[-1], 0.5)
operator("flatten", one(at_least_3d), lambda x: x.flatten(1))
operator("reshape", one(at_least_2d), lambda x: x.reshape(x.shape[1], x.shape[0], *x.shape[2:]))
operator("heads", one(by_eight), lambda x: x.unflatten(-1, (x.shape[-1] // 8, 8)))
operator("expand", one(lambda x: small(x) and x.dim() < 4), lambda x: x.expand(3, *x.shape), 0.5)
operator("repeat", one(small), lambda x: x.repeat(2, *[1] * (x.dim() - 1)), 0.5)
operator("flip", one(at_least_2d), lambda x: x.flip(-1))
operator("roll", one(at_least_2d), lambda x: x.roll(1, -1))
operator("rotate", one(even), lambda x: torch.cat([-x[..., 1::2], x[..., ::2]], -1) * 0.8 + x * 0.6)
operator("complex", one(even), by_complex_numbers)
operator("fourier", one(lambda x: even(x) and x.dtype == torch.float32), turn_phases, 0.5)
operator("triu", one(at_least_2d), torch.triu, 0.5)
operator("pad", one(not_scalar), lambda x: F.pad(x, (1, 2)))
operator("contiguous", one(), torch.Tensor.contiguous)
operator("channels_last", one(image), lambda x: x.contiguous(memory_format=torch.channels_last), 3)
operator("half", one(), torch.Tensor.bfloat16, 0.5)
operator("double", one(), torch.Tensor.double, 0.2)
operator("single", one(lambda x: x.dtype != torch.float32), torch.Tensor.float, 3)


# By an index.
def some_rows(rng, x):
    return [rng.randrange(x.shape[0]) for _ in range(rng.choice([2, x.shape[0], 3 * x.shape[0]]))]


def index_of(x, rows):
    return torch.tensor(rows, device=x.device)


def index_like(x, rows):
    """The same for each column."""
    return index_of(x, rows).view(-1, *[1] * (x.dim() - 1)).expand(-1, *x.shape[1:])


def scatter(x, rows, reduce):
    """Into zeros, in place or not, or into other values; at times with many that are equal."""
    index = index_like(x, rows)
    picked = x.gather(0, index)
    if len(rows) % 2:
        return x.new_zeros(x.shape).scatter_reduce_(0, index, picked.round(), reduce, include_self=False)
    if rows[0] % 2:
        return (x * 0.5).scatter_reduce(0, index, picked, reduce)
    return torch.zeros_like(x).scatter_reduce(0, index, picked, reduce)


def index_add(x, rows):
    index = index_of(x, rows)
    return x.index_add(0, index, x.index_select(0, index), alpha=0.1)


def scatter_add(x, rows):
    index = index_like(x, rows)
    return x.scatter_add(0, index, x.gather(0, index) * 0.1)


operator("index_select", one(rows, rows=some_rows), lambda x, rows: x.index_select(0, index_of(x, rows)))
operator("index", one(rows, rows=some_rows), lambda x, rows: x[index_of(x, rows)])
operator("mask", one(rows), lambda x: x[torch.arange(x.shape[0], device=x.device) % 3 != 0])
operator("gather", one(rows, rows=some_rows), lambda x, rows: x.gather(0, index_like(x, rows)))
operator("scatter_mean", one(rows, rows=some_rows), lambda x, rows: scatter(x, rows, "mean"))
operator("scatter_amax", one(rows, rows=some_rows), lambda x, rows: scatter(x, rows, "amax"))
operator("index_add", one(rows, rows=some_rows), index_add)
operator("scatter_add", one(rows, rows=some_rows), scatter_add)
operator("index_put", one(rows), lambda x: x.index_put((torch.arange(2, device=x.device),), x[:2].sin()))
operator("repeat_interleave", one(rows), lambda x: x.repeat_interleave(2, 0), 0.5)


# Layers.
def linear(x, weight, bias=None):
    return F.linear(x, weight, bias) / x.shape[-1] ** 0.5


def conv2d(x, weight, bias, stride=1):
    return F.conv2d(x, weight, bias, stride, padding=1) / (3 * x.shape[1] ** 0.5)


def bilinear(x, weight):
    return F.bilinear(x, x, weight) / x.shape[-1]


def batch_norm(x, weight, bias):
    return F.batch_norm(x, None, None, weight, bias, training=True)


def batch_norm_eval(x, weight, bias):
    return F.batch_norm(x, torch.zeros_like(weight), torch.ones_like(weight), weight, bias)


def group_norm(x, weight, bias):
    # Of channels-last images PyTorch 2.11 crashes where not every gradient is wanted.
    return F.group_norm(x.contiguous(), 4, weight, bias)


def attention(x):
    heads = x if x.dim() == 4 else x.unsqueeze(1)
    return F.scaled_dot_product_attention(heads, heads * 0.5, heads.tanh()).view(x.shape)


def embed(x, table):
    return x + F.embedding(torch.arange(x.shape[0], device=x.device) % len(table), table)


def recurrent(function, gates):
    """One layer of 8 hidden numbers. Its recurrent weights are made from the input's."""

    def apply(x, weight, bias):
        x = x[:, :12]
        hidden = torch.zeros(1, len(x), 8, device=x.device)
        weights = [weight, weight[:, :1].expand(-1, 8).contiguous(), bias, bias]
        state = (hidden, hidden) if gates == 4 else hidden
        return function(x, state, weights, True, 1, 0.0, True, False, True)[0]

    return with_weights(matrices, lambda x: [gates * 8, *width(x)], lambda x: [gates * 8]), apply


operator("lstm", *recurrent(torch.lstm, 4), 2)
operator("gru", *recurrent(torch.gru, 3))
operator("conv1d", with_weights(matrices, lambda x: [8, x.shape[1], 3], lambda x: [8]),
         lambda x, weight, bias: F.conv1d(x, weight, bias, padding=1) / x.shape[1])  # fmt: skip
operator("bilinear", with_weights(matrix, lambda x: [6, *width(x), *width(x)]), bilinear, 0.5)
operator("cdist", one(few_rows), lambda x: torch.cdist(x, x * 0.5 + 1), 0.5)
operator("einsum", one(few_columns), lambda x: torch.einsum("bij,bkj->bik", x, x.sin()) / x.shape[-1])
norm_2d = with_weights(float_image, channels, channels)
operator("linear", with_weights(matrix, lambda x: [16, *width(x)], lambda x: [16]), linear, 4)
operator("linear_wide", with_weights(matrix, lambda x: [64, *width(x)]), linear, 3)
operator("matmul", with_weights(matrix, lambda x: [*width(x), 24]), lambda x, w: x @ w / x.shape[-1] ** 0.5, 2)
operator("bmm", one(few_columns), lambda x: x @ x.transpose(1, 2) / x.shape[-1])
operator("layer_norm", with_weights(matrix, width, width), lambda x, *affine: F.layer_norm(x, x.shape[-1:], *affine), 4)
operator("layer_norm_bare", one(at_least_2d), lambda x: F.layer_norm(x, x.shape[-1:]))
operator("rms_norm", with_weights(matrix, width), lambda x, weight: F.rms_norm(x, x.shape[-1:], weight), 2)
operator("batch_norm", norm_2d, batch_norm, 6)
operator("batch_norm_1d", with_weights(samples, width, width), batch_norm, 2)
operator("batch_norm_eval", norm_2d, batch_norm_eval)
operator("instance_norm", norm_2d, lambda x, *affine: F.instance_norm(x, None, None, *affine))
operator("group_norm", with_weights(four_groups, channels, channels), group_norm, 4)
operator("prelu", with_weights(float_image, channels), F.prelu)
operator("conv2d", with_weights(float_image, lambda x: [8, *channels(x), 3, 3], lambda x: [8]), conv2d, 6)
operator("conv2d_strided", with_weights(float_image, lambda x: [16, *channels(x), 3, 3], lambda x: [16]),
         lambda x, weight, bias: conv2d(x, weight, bias, 2), 2)  # fmt: skip
operator("conv_transpose2d", with_weights(small_float_image, lambda x: [*channels(x), 8, 2, 2]),
         lambda x, weight: F.conv_transpose2d(x, weight, stride=2) / x.shape[1] ** 0.5)  # fmt: skip
operator("max_pool2d", one(image), lambda x: F.max_pool2d(x, 2), 2)
operator("adaptive_max_pool2d", one(image), lambda x: F.adaptive_max_pool2d(x, 3), 0.5)
operator("unfold", one(small_image), lambda x: F.unfold(x, 2), 0.5)
operator("local_response_norm", one(image), lambda x: F.local_response_norm(x.float(), 2), 0.5)
operator("avg_pool2d", one(image), lambda x: F.avg_pool2d(x, 2), 2)
operator("adaptive_avg_pool2d", one(image), lambda x: F.adaptive_avg_pool2d(x, 4))
operator("upsample_nearest", one(small_image), lambda x: F.interpolate(x, scale_factor=2), 2)
operator("upsample_bilinear", one(small_image), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
operator("pixel_shuffle", one(lambda x: image(x) and x.shape[1] % 4 == 0), lambda x: F.pixel_shuffle(x, 2))
operator("attention", one(attended), attention, 3)
operator("embedding", with_weights(lambda x: rows(x) and x.dim() == 2, lambda x: [32, *width(x)]), embed)


class Swish(torch.autograd.Function):
    """A Function of the program's own, which saves its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * torch.sigmoid(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return gradient * (gate + y * (1 - gate))


# In place.
def set_column(x, y):
    if x.dim():
        x[..., :1] = y[..., :1] * 2 if y.dim() else y
    return x


def zero_row(x):
    if x.dim():
        x[0].zero_()
    return x


for name in ("relu_", "sigmoid_", "tanh_", "neg_", "abs_", "sin_"):
    operator(name, changeable, getattr(torch.Tensor, name), in_place=True)
operator("silu_", changeable, lambda x: F.silu(x, inplace=True), in_place=True)
operator("hardtanh_", changeable, lambda x: F.hardtanh(x, inplace=True), in_place=True)
operator("leaky_relu_", changeable, lambda x: F.leaky_relu(x, inplace=True), in_place=True)
operator("dropout_", changeable, lambda x: F.dropout(x, 0.3, inplace=True), 0.5, in_place=True)
operator("plus_", changeable, lambda x: x.add_(1), in_place=True)
operator("times_", changeable, lambda x: x.mul_(0.5), in_place=True)
operator("clamp_", changeable, lambda x: x.clamp_(-1, 1), in_place=True)
operator("add_", changeable_and_another, lambda x, y: x.add_(y.to(x.dtype)), 2, in_place=True)
operator("mul_", changeable_and_another, lambda x, y: x.mul_(y.to(x.dtype)), in_place=True)
operator("set_column", changeable_and_another, set_column, in_place=True)
operator("zero_row", changeable, zero_row, in_place=True)

DRAW_NUMBERS = {"dropout", "dropout_"}
LEAVE_OPERANDS = {"add", "sub", "plus", "minus", "from", "times", "over", "cat", "stack"}
"""Those whose backward reads no operand: it may be changed in place afterwards."""
LEAVE_RESULTS = LEAVE_OPERANDS | {
    "mul", "linear", "matmul", "conv2d", "batch_norm", "group_norm", "layer_norm", "gelu", "where", "bmm", "clone",
    "index_select", "index", "avg_pool2d", "roll", "pad",
}  # fmt: skip
"""Those whose backward does not read the result."""
