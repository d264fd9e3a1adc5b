# SPDX-License-Identifier: Apache-2.0
"""Checks policy/operand.cpp against the installed torch.

For every operand said to be read for its sign or an interval only, or not at all, training with that
saved tensor replaced by what Cinch would restore (1 where x > 0 and 0 elsewhere; the interval's middle
inside and its lower bound outside; zeros) gives the same gradients bit for bit. For every factor, small errors in
what is saved make small errors in the gradients: nothing is compared or divided by. Of what is exact because it is
compared or divided by, the same errors change gradients much. As a check of the checks, the same replacements change
gradients where values are read.
"""

import sys

import torch
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


def signs(x):
    return (x > 0).to(x.dtype)


def signs_of_images(x):
    """The signs of an operator's input, but its weight as it is."""
    return signs(x) if x.numel() > 100 else x


def middles(lower, upper):
    """What an interval mask is restored to: its middle inside, the lower bound outside."""

    def restored(x):
        return torch.where((x > lower) & (x < upper), (lower + upper) / 2, lower).to(x.dtype)

    return restored


def numbers_of_workspace(x):
    """The gates and states in a recurrent layer's workspace; zeros instead of what lay in its gaps before."""
    numbers = x.view(torch.float32)
    return torch.where(numbers.abs() < 16, numbers, 0)


def gradients(function, inputs, replace=None, double=False):
    """Gradients of sum(function(*inputs) * weights); each saved float or complex tensor goes through replace."""

    def unpack(x):
        if x.dtype == torch.uint8 and replace is not None:
            return replace(numbers_of_workspace(x)).view(torch.uint8)
        if replace is None or not (x.is_floating_point() or x.is_complex()):
            return x
        restored = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype)
        return restored.copy_(replace(x))

    leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in inputs]
    with saved_tensors_hooks(lambda x: x, unpack):
        y = function(*leaves)
    weights = torch.linspace(-1.0, 1.0, y.numel(), dtype=y.dtype).reshape(y.shape)
    grads = torch.autograd.grad(y, leaves, weights, create_graph=double, allow_unused=True)
    grads = tuple(g for g in grads if g is not None)
    if double and any(g.requires_grad for g in grads):
        probe = sum((g * torch.arange(g.numel()).reshape(g.shape).cos()).sum() for g in grads)
        grads += tuple(g for g in torch.autograd.grad(probe, leaves, allow_unused=True) if g is not None)
    return grads


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def inplace(function):
    """function applied in place to a non-leaf."""
    return lambda x: function(x * 1.0)


def scattered(how, include_self):
    """scatter_reduce of a tensor into another that depends on it, too."""

    def function(v):
        into, index = v.narrow(2, 0, 5) * 2, torch.arange(v.numel()).reshape(v.shape) % 4
        return into.scatter_reduce(2, index, v * 1.0, how, include_self=include_self)

    return function


def samples(v, dimensions):
    """Where fractional max-pool puts its windows."""
    return torch.full((*v.shape[:2], dimensions), 0.4)


def cases():
    def x(*sizes, dtype=torch.float32):
        values = torch.randn(*sizes, dtype=dtype)
        values.flatten()[:: 7] = 0.0  # exact zeros sit on the edge of every sign test
        return values

    image, series, volume = x(3, 4, 12, 12), x(3, 4, 13), x(2, 3, 6, 6, 6)
    last = image.contiguous(memory_format=torch.channels_last)
    for name, function in [
        ("relu", torch.relu),
        ("relu_", inplace(torch.relu_)),
        ("leaky_relu", lambda v: F.leaky_relu(v, 0.1)),
        ("leaky_relu, negative slope", lambda v: F.leaky_relu(v, -0.3)),
        ("leaky_relu_", inplace(lambda v: F.leaky_relu_(v, 0.1))),
        ("leaky_relu_, slope 0", inplace(lambda v: F.leaky_relu_(v, 0.0))),
        ("rrelu", lambda v: F.rrelu(v, 0.1, 0.4)),
        ("rrelu_", inplace(lambda v: F.rrelu(v, 0.1, 0.4, inplace=True))),
    ]:
        for layout, values in [("contiguous", image), ("channels last", last), ("bfloat16", image.bfloat16())]:
            yield f"{name}, {layout}", function, [values], signs
    wide = image * 4
    wide.flatten()[1::5] = 6.0  # exact bounds sit on the edge of every interval test
    wide.flatten()[2::5] = -1.0
    for name, function, lower, upper in [
        ("hardtanh", F.hardtanh, -1.0, 1.0),
        ("hardtanh_", inplace(lambda v: F.hardtanh_(v, -1, 6)), -1.0, 6.0),
        ("relu6", F.relu6, 0.0, 6.0),
        ("relu6_", inplace(lambda v: F.relu6(v, inplace=True)), 0.0, 6.0),
        ("hardsigmoid", F.hardsigmoid, -3.0, 3.0),
        ("hardsigmoid_", inplace(lambda v: F.hardsigmoid(v, inplace=True)), -3.0, 3.0),
    ]:
        for layout, values in [("float32", wide), ("bfloat16", wide.bfloat16())]:
            yield f"{name}, {layout}", function, [values], middles(lower, upper)
    # Of PReLU's input this is said of one gradient only: the weight's reads values below 0.
    slopes = torch.tensor([0.25, -0.5, 0.0, 2.0])
    for layout, values in [("contiguous", image), ("channels last", last), ("bfloat16", image.bfloat16())]:
        weight = slopes.to(values.dtype)
        yield f"prelu, its input's gradient, {layout}", lambda v, w=weight: F.prelu(v, w), [values], signs_of_images
    for name, function, values in [
        ("max_pool1d", lambda v: F.max_pool1d(v, 3, 2), series),
        ("max_pool2d", lambda v: F.max_pool2d(v, 3, 2, 1), image),
        ("max_pool2d, dilated", lambda v: F.max_pool2d(v, 2, 1, 0, 2, True), image),
        ("max_pool2d, channels last", lambda v: F.max_pool2d(v, 3, 2, 1), last),
        ("max_pool3d", lambda v: F.max_pool3d(v, 2), volume),
        ("adaptive_max_pool1d", lambda v: F.adaptive_max_pool1d(v, 5), series),
        ("adaptive_max_pool2d", lambda v: F.adaptive_max_pool2d(v, 5), image),
        ("adaptive_max_pool3d", lambda v: F.adaptive_max_pool3d(v, 4), volume),
        ("avg_pool1d", lambda v: F.avg_pool1d(v, 3, 2), series),
        ("avg_pool2d", lambda v: F.avg_pool2d(v, 3, 2, 1), image),
        ("avg_pool2d, channels last", lambda v: F.avg_pool2d(v, 3, 2, 1), last),
        ("avg_pool3d", lambda v: F.avg_pool3d(v, 2), volume),
        ("adaptive_avg_pool1d", lambda v: F.adaptive_avg_pool1d(v, 5), series),
        ("adaptive_avg_pool2d", lambda v: F.adaptive_avg_pool2d(v, 5), image),
        ("adaptive_avg_pool2d, channels last", lambda v: F.adaptive_avg_pool2d(v, 5), last),
        ("adaptive_avg_pool3d", lambda v: F.adaptive_avg_pool3d(v, 4), volume),
        ("index_add, source", lambda v: torch.zeros(6, 4, 13).index_add(0, torch.tensor([4, 0, 4]), v), series),
        ("index_copy, source", lambda v: torch.zeros(6, 4, 13).index_copy(0, torch.tensor([4, 0, 2]), v), series),
        *(
            (f"{mode}_pad{values.dim() - 2}d", lambda v, m=mode: F.pad(v, (2, 1) * (v.dim() - 2), m), values)
            for mode in ("reflect", "replicate")
            for values in (series, image, volume)
        ),
        ("fractional_max_pool2d", lambda v: F.fractional_max_pool2d(v, 2, 5, _random_samples=samples(v, 2)), image),
        ("fractional_max_pool3d", lambda v: F.fractional_max_pool3d(v, 2, 3, _random_samples=samples(v, 3)), volume),
        ("complex", lambda v: torch.view_as_real(torch.complex(v, 2 * v)), series),
        ("take", lambda v: v.take(torch.arange(0, v.numel(), 3)), series),
        ("put, source", lambda v: torch.zeros(400).put(torch.arange(v.numel()).view_as(v) * 2, v), series),
        *(
            (f"scatter_reduce, {how}, {'with' if own else 'without'} its own", scattered(how, own), series)
            for how in ("sum", "mean")
            for own in (True, False)
        ),
        ("gather", lambda v: v.gather(2, torch.arange(12).view(1, 4, 3).expand(3, 4, 3)), series),
        ("masked_select", lambda v: v.masked_select(torch.arange(13) % 3 == 0), series),
        ("cummax", lambda v: v.cummax(2).values, series),
        ("cummin", lambda v: v.cummin(2).values, series),
        ("rfft", lambda v: torch.view_as_real(torch.fft.rfft(v)), series),
        ("rfft2", lambda v: torch.view_as_real(torch.fft.rfft2(v)), image),
    ]:
        yield name, function, [values], torch.zeros_like


def factors():
    """Functions of two tensors that save factors."""
    yield "mul", lambda a, b: a * b
    yield "div, numerator", lambda a, b: a / (2 + b.detach().tanh())
    yield "addcmul", lambda a, b: torch.addcmul(a, a, b, value=0.5)
    yield "addcdiv", lambda a, b: torch.addcdiv(a, a, 2 + b.tanh())
    yield "exp", lambda a, b: a.exp()
    yield "square", lambda a, b: a.square()
    yield "pow, 3", lambda a, b: a**3
    yield "expm1", lambda a, b: a.expm1()
    yield "erf", lambda a, b: a.erf()
    yield "tanh", lambda a, b: a.tanh()
    yield "sigmoid", lambda a, b: a.sigmoid()
    yield "softmax", lambda a, b: a.softmax(-1) * b.detach()
    yield "safe_softmax", lambda a, b: torch._safe_softmax(a, -1) * b.detach()
    yield "logsigmoid", lambda a, b: F.logsigmoid(a)
    yield "mse_loss", lambda a, b: F.mse_loss(a, b, reduction="none")
    yield "smooth_l1_loss", lambda a, b: F.smooth_l1_loss(a, b, reduction="none")
    yield "huber_loss", lambda a, b: F.huber_loss(a, b, reduction="none")
    yield "binary_cross_entropy_with_logits", lambda a, b: F.binary_cross_entropy_with_logits(a, b, reduction="none")
    yield "var", lambda a, b: a.var(-1)
    yield "std", lambda a, b: a.std(-1)
    yield "var_mean", lambda a, b: torch.var_mean(a, -1)[0]
    yield "std_mean", lambda a, b: torch.std_mean(a, -1)[0]
    yield "mv", lambda a, b: a.flatten(0, 2) @ b[0, 0, 0]
    yield "grid_sampler_2d", lambda a, b: F.grid_sample(a, b.view(3, 4, 8, 8)[..., :2].tanh(), align_corners=False)
    yield "conv3d", lambda a, b: F.conv3d(a[:, None], b[:2, :3].reshape(2, 1, 3, 8, 8), padding=(1, 0, 0))
    torch.manual_seed(3)
    lstm = torch.nn.LSTM(8, 6, batch_first=True)
    yield "lstm", lambda a, b: lstm(a.flatten(0, 1))[0]
    yield "soft_margin_loss", lambda a, b: F.soft_margin_loss(a, b.detach(), reduction="none")
    yield "exp2", lambda a, b: a.exp2()
    yield "erfc", lambda a, b: a.erfc()
    yield "atan", lambda a, b: a.atan()
    yield "asinh", lambda a, b: a.asinh()
    yield "nan_to_num", lambda a, b: a.nan_to_num()
    yield "nansum", lambda a, b: a.nansum(-1)
    yield "lerp", lambda a, b: torch.lerp(a, b, a.detach()) + torch.lerp(a.detach(), b.detach(), a)
    yield "dot", lambda a, b: a.flatten().dot(b.flatten())
    yield "vdot", lambda a, b: a.flatten().vdot(b.flatten())
    yield "addmv", lambda a, b: torch.addmv(a[0, 0, 0], a[0, 0], b[0, 0, 0])
    yield "addr", lambda a, b: torch.addr(a[0, 0], a[0, 0, 0], b[0, 0, 0])
    yield "addbmm", lambda a, b: torch.addbmm(a[0, 0], a[0], b[0])
    yield "linalg_cross", lambda a, b: torch.linalg.cross(a, b, dim=0)
    yield "bilinear", lambda a, b: F.bilinear(a, b, b[0].reshape(4, 8, 8))
    yield "conv_tbc", lambda a, b: torch.conv_tbc(a[0], b[0, :3], b[0, 0, 0])
    yield "_convolution", lambda a, b: torch._convolution(
        a, b[:, :, :3, :3].contiguous(), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, False, False
    )
    yield "_slow_conv2d_forward", lambda a, b: torch.ops.aten._slow_conv2d_forward(
        a, b[:, :, :3, :3].contiguous(), [3, 3], None, [1, 1], [1, 1]
    )
    yield "pow, of a number", lambda a, b: 2.0**a
    yield "pow, result", lambda a, b: (2 + a.detach().tanh()) ** b
    yield "embedding_bag", lambda a, b: F.embedding_bag(
        torch.arange(96).view(8, 12) % 24, a.view(96, 8), per_sample_weights=b.flatten()[:96].view(8, 12), mode="sum"
    )


def complex_factors():
    """Functions of two complex tensors that save factors or activations."""
    yield "mul", lambda a, b: a * b
    yield "mul, conjugate", lambda a, b: a.conj() * b
    yield "div, numerator", lambda a, b: a / (3 + b.detach().sgn())
    yield "addcmul", lambda a, b: torch.addcmul(a, a, b, value=0.5)
    yield "addcdiv", lambda a, b: torch.addcdiv(a, a, 3 + b.sgn())
    yield "bmm", lambda a, b: a[0] @ b[0].mT
    yield "mm", lambda a, b: a[0, 0] @ b[0, 0].conj()
    yield "einsum", lambda a, b: torch.einsum("bixy,ioxy->boxy", a, b.transpose(0, 1))
    yield "addmm", lambda a, b: torch.addmm(a[0, 0], a[0, 1], b[0, 0])
    yield "addbmm", lambda a, b: torch.addbmm(a[0, 0], a[0], b[0])
    yield "baddbmm", lambda a, b: torch.baddbmm(a[0], a[0], b[0])
    yield "mv", lambda a, b: a.flatten(0, 2) @ b[0, 0, 0]
    yield "addmv", lambda a, b: torch.addmv(a[0, 0, 0], a[0, 0], b[0, 0, 0])
    yield "addr", lambda a, b: torch.addr(a[0, 0], a[0, 0, 0], b[0, 0, 0])
    yield "dot", lambda a, b: a.flatten().dot(b.flatten())
    yield "vdot", lambda a, b: a.flatten().vdot(b.flatten())
    yield "exp", lambda a, b: a.exp()
    yield "exp2", lambda a, b: a.exp2()
    yield "expm1", lambda a, b: a.expm1()
    yield "tanh", lambda a, b: a.tanh()
    yield "sigmoid", lambda a, b: a.sigmoid()
    yield "square", lambda a, b: a.square()
    yield "pow, 3", lambda a, b: a**3
    yield "pow, of a number", lambda a, b: 2.0**a
    yield "pow, result", lambda a, b: (3 + a.detach().sgn()) ** b
    yield "lerp", lambda a, b: torch.lerp(a, b, a.detach()) + torch.lerp(a.detach(), b.detach(), a)
    yield "var", lambda a, b: a.var(-1)
    yield "std", lambda a, b: a.std(-1)
    yield "linalg_cross", lambda a, b: torch.linalg.cross(a, b, dim=0)
    yield "irfft", lambda a, b: torch.fft.irfft(a * b)
    yield "fft", lambda a, b: torch.fft.fft(a * b)


def poles():
    """Functions of a complex tensor, near a pole of the derivative, that tolerate errors in real numbers only."""
    yield "asinh", lambda a: (1j + 1e-3 * a).asinh()
    yield "atan", lambda a: (1j + 1e-3 * a).atan()


def second_factors():
    """The same, whose gradients' gradients save factors."""
    yield "tanh_backward", lambda a, b: a.tanh()
    yield "sigmoid_backward", lambda a, b: a.sigmoid()
    yield "_softmax_backward_data", lambda a, b: a.softmax(-1) * b.detach()
    yield "_log_softmax_backward_data", lambda a, b: a.log_softmax(-1)
    yield "gelu_backward", lambda a, b: F.gelu(a)
    yield "glu_backward", lambda a, b: F.glu(a)
    yield "hardswish_backward", lambda a, b: F.hardswish(a)
    yield "softplus_backward", lambda a, b: F.softplus(a)
    yield "log_sigmoid_backward", lambda a, b: F.logsigmoid(a)
    yield "mse_loss_backward", lambda a, b: F.mse_loss(a, b, reduction="none")
    yield "smooth_l1_loss_backward", lambda a, b: F.smooth_l1_loss(a, b, reduction="none")
    yield "huber_loss_backward", lambda a, b: F.huber_loss(a, b, reduction="none")
    yield "native_layer_norm_backward", lambda a, b: F.layer_norm(a, (8,)) * b.detach()
    yield "native_batch_norm_backward", lambda a, b: F.batch_norm(a, None, None, training=True)


def deciding():
    """Functions of two tensors of widely differing values, whose saved values have to be exact."""
    labels = torch.arange(96) % 8
    for name in "amax amin cumprod prod".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a, -1)
    for name in "max min median nanmedian".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a)
    for name in "maximum minimum fmax fmin atan2 copysign fmod remainder hypot".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a, b)
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a.abs())
    yield "entr", lambda a, b: torch.special.entr(a.abs())
    yield "xlogy", lambda a, b: torch.xlogy(a, b.abs())
    yield "xlog1py", lambda a, b: torch.special.xlog1py(a, b.abs())
    for name in "acos asin atanh logit".split():
        yield name, lambda a, b, f=getattr(torch, name): f(1 - 1e-6 - a.abs() / (1 + a.abs().max()))
    yield "acosh", lambda a, b: (1 + a.abs()).acosh()
    # The error of a logarithm is the relative error of what it is the logarithm of.
    yield "logsumexp", lambda a, b: (a + 1e4).logsumexp(-1)
    yield "logcumsumexp", lambda a, b: (a + 1e4).logcumsumexp(-1)
    yield "logaddexp", lambda a, b: torch.logaddexp(a * 1e-2 + 1e4, b * 1e-2 + 1e4)
    yield "logaddexp2", lambda a, b: torch.logaddexp2(a * 1e-2 + 1e4, b * 1e-2 + 1e4)
    yield "abs", lambda a, b: a.abs()
    yield "tan", lambda a, b: (1.57 - a.abs() / (1 + a.abs().max())).tan()
    yield "addcdiv", lambda a, b: torch.addcdiv(a, a, b)
    yield "div", lambda a, b: a / b
    yield "clamp", lambda a, b: a.clamp(0, 1)
    yield "clamp, tensors", lambda a, b: a.clamp(b, b + 1)
    yield "clamp_min", lambda a, b: a.clamp_min(0)
    yield "clamp_max", lambda a, b: a.clamp_max(0)
    yield "threshold", lambda a, b: F.threshold(a, 0.0, 1.0)
    yield "hardshrink", lambda a, b: F.hardshrink(a)
    yield "softshrink", lambda a, b: F.softshrink(a)
    yield "binary_cross_entropy", lambda a, b: F.binary_cross_entropy(
        (a.abs() / (1 + a.abs().max())), (b > 0).to(b), reduction="none"
    )
    yield "multi_margin_loss", lambda a, b: F.multi_margin_loss(a.view(96, 8), labels, margin=0.0, reduction="none")
    yield "_cdist_forward", lambda a, b: torch.cdist(a.view(12, 64, 1), b.view(12, 64, 1))
    yield "_euclidean_dist", lambda a, b: torch._euclidean_dist(a.view(12, 64, 1), b.view(12, 64, 1))
    yield "_pdist_forward", lambda a, b: F.pdist(a[0].view(-1, 1))
    yield "linalg_vector_norm", lambda a, b: torch.linalg.vector_norm(a.view(-1, 1), dim=-1)
    yield "norm", lambda a, b: torch.ops.aten.norm(a.view(-1, 1), 2, [-1])
    yield "_weight_norm", lambda a, b: torch._weight_norm_interface(a[0, 0], b[0, 0, :, :1].contiguous())[0]
    yield "ctc_loss", lambda a, b: torch.ctc_loss(
        a.view(12, 8, 8), torch.ones(8, 3).long(), torch.full((8,), 12), torch.full((8,), 3), 0, 0
    )
    yield "fake_quantize", lambda a, b: torch._fake_quantize_learnable_per_tensor_affine(
        a, torch.tensor([1e-3]), torch.tensor([0.0]), -8, 7
    )
    yield "pow, 1.5", lambda a, b: (a * a) ** 1.5
    yield "pow, -0.5", lambda a, b: (a * a * 1e-6) ** -0.5
    yield "norm of the largest", lambda a, b: torch.linalg.vector_norm(a, float("inf"), -1)


def error_of(function, inputs, double=False):
    """Relative error of the gradients when a thousandth of its size is added to each saved float tensor."""

    generator = torch.Generator().manual_seed(1)

    def off(x):
        noise = torch.randn(*x.shape, 2, generator=generator)
        noise = torch.view_as_complex(noise) if x.is_complex() else noise[..., 0]
        return x + 1e-3 * noise.to(x) * x.abs().float().square().mean().sqrt().to(x)

    pairs = zip(gradients(function, inputs, None, double), gradients(function, inputs, off, double))
    return max(((a - b).norm() / a.norm()).item() for a, b in pairs if a.norm() > 0)


def values_matter():
    x = torch.randn(3, 4, 8, 8)
    yield "gelu", F.gelu, [x], signs
    yield "silu", F.silu, [x], signs
    yield "hardswish", F.hardswish, [x], signs
    yield "elu_", inplace(F.elu_), [x], signs
    yield "tanh", torch.tanh, [x], signs
    yield "hardtanh", F.hardtanh, [x * 2], signs
    yield "threshold", lambda v: F.threshold(v, 0.3, 0.0), [x], signs
    yield "prelu", F.prelu, [x, torch.full((1,), 0.2)], signs
    yield "conv2d", F.conv2d, [x, torch.randn(5, 4, 3, 3)], torch.zeros_like
    yield "scatter_reduce, amax", scattered("amax", True), [torch.randn(3, 4, 13)], torch.zeros_like
    lstm = torch.nn.LSTM(8, 6, batch_first=True).requires_grad_(False)
    yield "lstm, workspace", lambda v: lstm(v.flatten(0, 1))[0], [x], lambda v: v * (v.numel() % 1024 != 0)


def main():
    torch.manual_seed(0)
    failures = []
    count = 0
    for name, function, inputs, replace in cases():
        for double in (False, True):
            if double and name.startswith("hardsigmoid"):
                continue  # PyTorch has no derivative of its derivative
            count += 1
            if not same(gradients(function, inputs, None, double), gradients(function, inputs, replace, double)):
                failures.append(f"{name}{' (double backward)' if double else ''}: reads more than operand.cpp says")
    inputs = [torch.randn(3, 4, 8, 8), torch.randn(3, 4, 8, 8)]
    for name, function in factors():
        count += 1
        if not error_of(function, inputs) <= 0.02:
            failures.append(f"{name}: small errors make large ones: no factor as operand.cpp says")
    numbers = [torch.randn(3, 4, 8, 8, dtype=torch.complex64), torch.randn(3, 4, 8, 8, dtype=torch.complex64)]
    for name, function in complex_factors():
        count += 1
        if not error_of(function, numbers) <= 0.02:
            failures.append(f"{name}, complex: small errors make large ones: no factor as operand.cpp says")
    for name, function in poles():
        count += 1
        if error_of(function, numbers[:1]) <= 0.02:
            failures.append(f"{name}, complex: small errors went unnoticed: has no poles as operand.cpp says")
    for name, function in second_factors():
        count += 1
        if not error_of(function, inputs, True) <= 0.02:
            failures.append(f"{name}: small errors make large ones: no factor as operand.cpp says")
    wide = [x**5 for x in inputs]
    for name, function in deciding():
        count += 1
        if error_of(function, wide) <= 0.02:
            failures.append(f"{name}: small errors went unnoticed: need not be exact as operand.cpp says")
    for name, function, inputs, replace in values_matter():
        count += 1
        if same(gradients(function, inputs), gradients(function, inputs, replace)):
            failures.append(f"{name}: the replacement went unnoticed, so this check checks nothing")
    for failure in failures:
        print(failure)
    print(f"torch {torch.__version__}: {count - len(failures)} of {count} facts hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
