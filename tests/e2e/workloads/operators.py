# SPDX-License-Identifier: Apache-2.0
"""Operators one at a time, each on intermediates that nothing but autograd holds, so that whatever
an operator saves is Cinch's to keep."""

import torch
import torch.nn.functional as F

from workloads.registry import workload
from workloads.training import gradients


def check_each(cases: dict) -> dict:
    """Name → function of two 8 x 24 x 24 intermediates; returns every output and gradient."""
    written = {}
    for name, function in cases.items():
        torch.manual_seed(1)
        a = torch.randn(8, 24, 24, requires_grad=True)
        b = torch.randn(8, 24, 24, requires_grad=True)
        output = function(a * 1.5, b + 0.25)
        # The zero term makes each leaf part of the graph, whatever the operator used.
        output = output.double() + 0.0 * (a.sum() + b.sum())
        for kind, value in gradients(output, a, b).items():
            written[f"{name}.{kind}"] = value
    return written


@workload
def pointwise():
    return check_each(
        {
            "mul": lambda a, b: a * b,
            "div": lambda a, b: a / (b.abs() + 1),
            "pow": lambda a, b: a.abs().pow(b),
            "exp": lambda a, b: a.exp(),
            "log": lambda a, b: (a.abs() + 1).log(),
            "sqrt": lambda a, b: (a.abs() + 1).sqrt(),
            "rsqrt": lambda a, b: (a.abs() + 1).rsqrt(),
            "sin": lambda a, b: a.sin() + b.cos(),
            "tanh": lambda a, b: a.tanh(),
            "sigmoid": lambda a, b: a.sigmoid(),
            "erf": lambda a, b: a.erf(),
            "atan2": lambda a, b: torch.atan2(a, b),
            "abs": lambda a, b: a.abs(),
            "clamp": lambda a, b: a.clamp(-0.5, 0.5),
            "clamp_tensors": lambda a, b: torch.clamp(a, b - 1, b + 1),
            "maximum": lambda a, b: torch.maximum(a, b),
            "where": lambda a, b: torch.where(a > b, a * a, b.exp()),
            "masked_fill": lambda a, b: a.exp().masked_fill(b > 0, 0.0),
            "lerp": lambda a, b: torch.lerp(a, b, a.sigmoid()),
            "addcmul": lambda a, b: torch.addcmul(a, a.exp(), b),
            "addcdiv": lambda a, b: torch.addcdiv(a, b, a.exp()),
            "hypot": lambda a, b: torch.hypot(a, b),
            "xlogy": lambda a, b: torch.xlogy(a.abs(), b.abs() + 1),
        }
    )


class Rounded(torch.autograd.Function):
    """Rounds, so that many values are equal, and lets all of the gradient through."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


@workload
def compared():
    """What backward only compares, after a first time by which its operators are known: with equal values, with NaN."""

    def rounded(x):
        return Rounded.apply(x * 2)

    def holed(x):
        return x.masked_fill(x.abs() < 0.1, float("nan"))

    def transposed(x):
        return x.transpose(0, 2).contiguous().transpose(0, 2)

    index = (torch.arange(24) * 7 % 5).view(-1, 1).expand(8, 24, 24)

    def reduced(into, x, how="amax", include_self=True):
        return into[:, :6].scatter_reduce(1, index, x, how, include_self=include_self)

    def reduced_in_place(x, how="amax"):
        return x.new_zeros(8, 6, 24).scatter_reduce_(1, index, x, how, include_self=False)

    return check_each(
        {
            "maximum, unknown": lambda a, b: torch.maximum(a, b),
            "minimum, unknown": lambda a, b: torch.minimum(a, b),
            "maximum": lambda a, b: torch.maximum(rounded(a), rounded(b)) * a,
            "minimum": lambda a, b: torch.minimum(rounded(a), rounded(b)) * a,
            "maximum of itself": lambda a, b: torch.maximum(a.exp(), a.exp()),
            "maximum, broadcast": lambda a, b: torch.maximum(a, b[:1, :, :1]),
            "minimum, broadcast": lambda a, b: torch.minimum(a[:, :1], b),
            "maximum with a number": lambda a, b: torch.maximum(a.exp(), torch.tensor(1.0)),
            "minimum with a number": lambda a, b: torch.minimum(torch.tensor(0.5), rounded(a)),
            "maximum with infinity": lambda a, b: torch.maximum(a / (b > 0), torch.tensor(float("inf"))),
            "maximum with NaN": lambda a, b: torch.maximum(holed(a), holed(b)),
            "minimum of two types": lambda a, b: torch.minimum(a.bfloat16(), b),
            "maximum in place of one": lambda a, b: torch.maximum(a, b).mul_(2),
            "amax, unknown": lambda a, b: a.amax(1),
            "amin, unknown": lambda a, b: a.amin(1),
            "amax": lambda a, b: rounded(a).amax(1) * b[:, 0],
            "amax, kept": lambda a, b: rounded(a) - rounded(a).amax(-1, keepdim=True),
            "amax of all": lambda a, b: rounded(a).amax(),
            "amax over two": lambda a, b: rounded(a).amax((-1, 0)),
            "amin over two": lambda a, b: rounded(a).amin((0, 1)),
            "amin, transposed": lambda a, b: rounded(a).transpose(0, 2).amin(1),
            "amax with NaN": lambda a, b: holed(a).amax(2),
            "max, unknown": lambda a, b: a.max(),
            "min, unknown": lambda a, b: a.min(),
            "max": lambda a, b: rounded(a).max() * b,
            "min": lambda a, b: rounded(a).min() * b,
            "max with NaN": lambda a, b: holed(a).max() * b,
            "scatter_reduce, unknown": lambda a, b: reduced(a, b),
            "scatter_reduce_, unknown": lambda a, b: reduced_in_place(a),
            "scatter_reduce": lambda a, b: reduced(rounded(a), rounded(b)) * a[:, :6],
            "scatter_reduce of the least": lambda a, b: reduced(rounded(a), rounded(b), "amin", False),
            "scatter_reduce, no own": lambda a, b: reduced(rounded(a), rounded(b), include_self=False),
            "scatter_reduce with NaN": lambda a, b: reduced(holed(a), holed(b)),
            "scatter_reduce of itself": lambda a, b: reduced(rounded(a), rounded(a)),
            "scatter_reduce of a transposed": lambda a, b: reduced(a, transposed(rounded(b))),
            "scatter_reduce_": lambda a, b: reduced_in_place(rounded(a)) * b[:, :6],
            "scatter_reduce_ of the least": lambda a, b: reduced_in_place(rounded(a), "amin"),
            "scatter_reduce_ of a part": lambda a, b: reduced_in_place(torch.cat([rounded(a), b], 2)[:, :, :24]),
            "scatter_reduce, mean": lambda a, b: reduced(a, b, "mean"),
            "scatter_reduce, prod": lambda a, b: reduced(a, b, "prod"),
            # Whether a value at a bound has a gradient depends on PyTorch's version.
            **{
                f"{name}, {time}": lambda a, b, bounds=bounds: rounded(a).clamp(**bounds) * b
                for time in ("unknown", "at its bounds")
                for name, bounds in {
                    "clamp": {"min": -1, "max": 2}, "clamp_min": {"min": 0}, "clamp_max": {"max": 1},
                }.items()
            },
            "softmax by hand": lambda a, b: (a - a.amax(-1, keepdim=True)).exp() * b,
        }
    )


@workload
def activations():
    return check_each(
        {
            "relu": lambda a, b: F.relu(a),
            "relu_inplace": lambda a, b: F.relu_(a.clone()),
            "relu_then_linear": lambda a, b: F.relu(a) @ b,
            "relu6": lambda a, b: F.relu6(a * 4),
            "relu6_inplace": lambda a, b: F.relu6(a * 4, inplace=True),
            "hardtanh": lambda a, b: F.hardtanh(a),
            "hardtanh_inplace": lambda a, b: F.hardtanh_(a * 1.0, -0.5, 2),
            "hardtanh_and_its_input": lambda a, b: F.hardtanh(a) + F.relu6(a) * a,
            "leaky_relu": lambda a, b: F.leaky_relu(a, 0.2),
            "leaky_relu_inplace": lambda a, b: F.leaky_relu_(a.clone(), 0.2),
            "rrelu": lambda a, b: F.rrelu(a, training=True),
            "prelu": lambda a, b: F.prelu(a, b[0, 0]),
            "threshold": lambda a, b: F.threshold(a, 0.1, -1.0),
            "elu": lambda a, b: F.elu(a),
            "celu": lambda a, b: F.celu(a),
            "selu": lambda a, b: F.selu(a),
            "gelu": lambda a, b: F.gelu(a),
            "gelu_tanh": lambda a, b: F.gelu(a, approximate="tanh"),
            "silu": lambda a, b: F.silu(a),
            "silu_inplace": lambda a, b: F.silu(a * 1.0, inplace=True),
            "mish": lambda a, b: F.mish(a),
            "softplus": lambda a, b: F.softplus(a),
            "softsign": lambda a, b: F.softsign(a),
            "hardswish": lambda a, b: F.hardswish(a),
            "hardsigmoid": lambda a, b: F.hardsigmoid(a),
            "logsigmoid": lambda a, b: F.logsigmoid(a),
            "glu": lambda a, b: F.glu(a),
            "softmax": lambda a, b: F.softmax(a, dim=-1),
            "log_softmax": lambda a, b: F.log_softmax(a, dim=1),
            "dropout": lambda a, b: F.dropout(a, 0.4),
            "dropout_inplace": lambda a, b: F.dropout(a.clone(), 0.4, inplace=True),
            "alpha_dropout": lambda a, b: F.alpha_dropout(a, 0.4, training=True),
            "dropout2d": lambda a, b: F.dropout2d(a, 0.4),
        }
    )


@workload
def reductions():
    return check_each(
        {
            "sum": lambda a, b: (a * b).sum(dim=1),
            "mean": lambda a, b: (a * b).mean(dim=(0, 2)),
            "prod": lambda a, b: a.prod(dim=2),
            "norm": lambda a, b: a.norm(dim=1),
            "var": lambda a, b: a.var(dim=2),
            "std": lambda a, b: a.std(dim=0),
            "logsumexp": lambda a, b: a.logsumexp(dim=1),
            "max": lambda a, b: a.max(dim=1).values,
            "amax": lambda a, b: a.amax(dim=1),
            "median": lambda a, b: a.median(dim=2).values,
            "cumsum": lambda a, b: (a.exp().cumsum(dim=1)),
            "cumprod": lambda a, b: a.cumprod(dim=1),
            "sort": lambda a, b: a.sort(dim=1).values * b,
            "topk": lambda a, b: a.topk(5, dim=2).values,
            "cross_entropy": lambda a, b: F.cross_entropy(a.flatten(0, 1), torch.arange(192) % 24, reduction="none"),
            "smooth_l1": lambda a, b: F.smooth_l1_loss(a, b, reduction="none"),
            "kl_div": lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="none"),
            "bce_with_logits": lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid(), reduction="none"),
        }
    )


@workload
def matrices():
    return check_each(
        {
            "matmul": lambda a, b: a @ b,
            "bmm_transposed": lambda a, b: torch.bmm(a.transpose(1, 2), b),
            "baddbmm": lambda a, b: torch.baddbmm(a, a.exp(), b),
            "mm": lambda a, b: a[0] @ b[0],
            "mv": lambda a, b: a[0] @ b[0, 0],
            "dot": lambda a, b: a[0, 0] @ b[0, 0],
            "outer": lambda a, b: torch.outer(a[0, 0], b[0, 0]),
            "einsum": lambda a, b: torch.einsum("nij,nkj->nik", a, b),
            "linear": lambda a, b: F.linear(a, b[0], b[1, 0]),
            "bilinear": lambda a, b: F.bilinear(a[0], b[0], torch.ones(3, 24, 24)),
            "cdist": lambda a, b: torch.cdist(a, b),
            "inverse": lambda a, b: torch.linalg.inv(a + 30 * torch.eye(24)),
            "solve": lambda a, b: torch.linalg.solve(a + 30 * torch.eye(24), b),
            "cholesky": lambda a, b: torch.linalg.cholesky(a @ a.mT + 30 * torch.eye(24)),
            "matrix_exp": lambda a, b: torch.linalg.matrix_exp(a / 10),
            "fft": lambda a, b: torch.view_as_real(torch.fft.rfft(a) * torch.fft.rfft(b)),
        }
    )


@workload
def planes():
    return check_each(
        {
            "conv2d": lambda a, b: F.conv2d(a[None], b[:, None, :3, :3], groups=8),
            "conv1d": lambda a, b: F.conv1d(a, b[:, :, :3]),
            "conv_transpose2d": lambda a, b: F.conv_transpose2d(a[:, None], b[:1, None, :3, :3], stride=2),
            "max_pool": lambda a, b: F.max_pool2d(a, 2),
            "max_pool_overlapping": lambda a, b: F.max_pool2d(a, 3, stride=2, padding=1),
            "max_pool_dilated": lambda a, b: F.max_pool2d(a, 3, stride=1, dilation=2),
            "max_pool_ceil": lambda a, b: F.max_pool2d(a, 5, stride=3, ceil_mode=True),
            "max_pool_indices": lambda a, b: F.max_unpool2d(*F.max_pool2d(a[None], 2, return_indices=True), 2),
            "avg_pool": lambda a, b: F.avg_pool2d(a, 3, stride=2, padding=1),
            "lp_pool": lambda a, b: F.lp_pool2d(a, 2, 2),
            "adaptive_max_pool": lambda a, b: F.adaptive_max_pool2d(a, 5),
            "adaptive_avg_pool": lambda a, b: F.adaptive_avg_pool2d(a, 5),
            "fractional_max_pool": lambda a, b: F.fractional_max_pool2d(a, 2, output_size=10),
            "batch_norm": lambda a, b: F.batch_norm(a, None, None, b[0, 0], b[0, 1], training=True),
            "batch_norm_evaluating": lambda a, b: F.batch_norm(a, torch.zeros(24), torch.ones(24), b[0, 0], b[0, 1]),
            "layer_norm": lambda a, b: F.layer_norm(a, (24,), b[0, 0], b[0, 1]),
            "rms_norm": lambda a, b: F.rms_norm(a, (24,), b[0, 0]),
            "group_norm": lambda a, b: F.group_norm(a, 4, b[0, 0], b[0, 1]),
            "local_response_norm": lambda a, b: F.local_response_norm(a, 3),
            "interpolate": lambda a, b: F.interpolate(a[None], scale_factor=1.7, mode="bicubic"),
            "grid_sample": lambda a, b: F.grid_sample(a[None], b[None, 0, :, :2].unsqueeze(2).tanh()),
            "unfold": lambda a, b: F.unfold(a[None], 3).exp(),
            "pixel_shuffle": lambda a, b: F.pixel_shuffle(a, 2).exp(),
            "pad": lambda a, b: F.pad(a, (2, 1, 0, 3), mode="reflect").exp(),
        }
    )


@workload
def indexing():
    rows = torch.tensor([3, 0, 3, 7])
    return check_each(
        {
            "index": lambda a, b: a.exp()[rows] * b[rows],
            "index_mask": lambda a, b: a.exp()[torch.arange(8) % 3 == 0],
            "index_select": lambda a, b: a.exp().index_select(0, rows),
            "gather": lambda a, b: a.gather(1, b.argsort(dim=1)).exp(),
            "scatter": lambda a, b: a.scatter(1, b.argsort(dim=1), b.exp()),
            "scatter_add": lambda a, b: a.scatter_add(1, b.argsort(dim=1), b.exp()).exp(),
            "take_along_dim": lambda a, b: torch.take_along_dim(a, a.argsort(dim=2), 2).exp(),
            "embedding": lambda a, b: F.embedding(rows, a[0].exp()),
            "embedding_bag": lambda a, b: F.embedding_bag(rows[None], a[0].exp(), mode="max"),
            "index_add": lambda a, b: a.index_add(0, rows, b[:4].exp()).exp(),
            "masked_select": lambda a, b: a.exp().masked_select(torch.ones(8, 24, 24, dtype=torch.bool)),
            "roll": lambda a, b: a.roll(3, dims=1).exp(),
        }
    )


@workload
def geometries():
    """Views of one storage in every shape that autograd can save."""
    return check_each(
        {
            "transposed": lambda a, b: a.transpose(0, 2).exp(),
            "square_transpose_right": lambda a, b: (s := a[0].exp()) @ s.t(),
            "square_transpose_left": lambda a, b: (s := a[0].exp()).t() @ s,
            "square_transpose_both": lambda a, b: (s := a[0].exp()) @ s + s.t() @ s.t() + s @ s.t(),
            "fused_chunks": lambda a, b: (lambda q, k, v: (q @ k.mT).softmax(-1) @ v)(*a.exp().chunk(3, dim=-1)),
            "slices": lambda a, b: (s := a.exp())[:, ::2, 1:-1] * s[:, 1::2, 1:-1],
            "overlapping": lambda a, b: (s := a.exp())[:, :-1] * s[:, 1:],
            "as_strided_overlapping": lambda a, b: a.exp().as_strided((20, 30), (7, 3), 5).sin(),
            "unfold": lambda a, b: a.exp().unfold(1, 5, 2).sin(),
            "expanded": lambda a, b: a[:, :1].exp().expand(8, 24, 24) * b,
            "expanded_scalar": lambda a, b: a.mean().expand(8, 24, 24) * b,
            "diagonal": lambda a, b: a.exp().diagonal(dim1=1, dim2=2).sin(),
            "selected": lambda a, b: a.exp().select(1, 3).sin() * b.exp().narrow(1, 4, 1).squeeze(1).sin(),
            "permuted": lambda a, b: a.exp().permute(2, 0, 1).sin() * b.permute(2, 0, 1),
            "channels_last": lambda a, b: a[None].exp().to(memory_format=torch.channels_last).sin(),
            "real_and_imaginary": lambda a, b: (z := torch.complex(a, b).exp()).real * z.imag,
            "conjugate": lambda a, b: torch.view_as_real((z := torch.complex(a, b).exp()) * z.conj() * z),
            "negated_imaginary": lambda a, b: torch.complex(a, b).exp().conj().imag.sin(),
            "as_complex": lambda a, b: torch.view_as_complex(a.exp().unflatten(2, (12, 2))).abs(),
            "zero_dimensional": lambda a, b: a.sum().sin() * b.mean().exp(),
            "empty": lambda a, b: (a[:0].exp() * b[:0]).sum() + a.sum(),
            "other_dtypes": lambda a, b: a.double().exp() * b.half().exp() * a.bfloat16().sin(),
        }
    )
