# SPDX-License-Identifier: Apache-2.0
"""Operators of whose operands backward reads a sign, an interval or no value, for verify_operand_facts.py."""

import torch
import torch.nn.functional as F


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


# Since 2.14 a value at one of clamp's bounds has no gradient.
CLAMP_LEAVES_OUT_ENDS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)


def middles_of_closed(lower, upper, leaves_out_ends=False):
    """The same of an interval whose bounds, rounded to the type, lie inside: outside a value next to it."""

    def restored(x):
        low, high = (torch.tensor(bound).to(x.dtype) for bound in (lower, upper))
        most = torch.finfo(x.dtype).max
        middle = low.clamp(-most, most) / 2 + high.clamp(-most, most) / 2
        outside = low - low.abs() - 1 if lower > -float("inf") else high + high.abs() + 1
        is_inside = (x > low) & (x < high) if leaves_out_ends else (x >= low) & (x <= high)
        return torch.where(is_inside, middle, outside)

    return restored


def zeros_for(values):
    """Zeros instead of the tensor of these values, and no other."""
    return lambda x: torch.zeros_like(x) if x.shape == values.shape and torch.equal(x, values) else x


def one_beside(a, b):
    """Of two tensors that backward only compares: 1 for `b`, and for `a` what compares with 1 as it does with `b`."""

    def restored(x):
        if not (x.shape == a.shape and torch.equal(x, a)):
            return torch.ones_like(x)
        return torch.where(a == b, 1, torch.where(a > b, float("inf"), -float("inf"))).to(x.dtype)

    return restored


def ones_for_reduced(function, into, source, index):
    """The same for what scatter_reduce compares along the last dimension: itself, and its source, with the result."""
    result = function(source)
    equal_own, equal_source = into == result, source == result.gather(2, index)

    def restored(x):
        if not x.is_floating_point():
            return x
        if x.shape == source.shape:
            return equal_source.to(x.dtype)
        return equal_own.to(x.dtype) if torch.equal(x, into) else torch.ones_like(x)

    return restored


def kept_beside(a, b):
    """The same where `b` stays as it is."""
    return lambda x: torch.where(a == b, b, (a - b) * float("inf")) if torch.equal(x, a) else x


# PyTorch has no derivative of these operators' derivatives, or none that reads the operand's like.
WITHOUT_SECOND_DERIVATIVE = ("hardsigmoid", "segment_reduce")


def inplace(function):
    """function applied in place to a non-leaf."""
    return lambda x: function(x * 1.0)


def scattered(how, include_self):
    """scatter_reduce of a tensor into another that depends on it, too."""

    def function(v):
        into, index = v.narrow(2, 0, 5) * 2, torch.arange(v.numel()).reshape(v.shape) % 4
        return into.scatter_reduce(2, index, v * 1.0, how, include_self=include_self)

    return function


def reduced_by_index(how, include_self):
    """index_reduce of a tensor into another that depends on it, too."""

    def function(v):
        return (v[:2] * 2).index_reduce(0, torch.tensor([1, 0, 1]), v * 1.0, how, include_self=include_self)

    return function


def segmented(how):
    return lambda v: torch.segment_reduce(v, how, lengths=torch.tensor([2, 1]))


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
    inf = float("inf")
    for name, function, lower, upper in [
        ("clamp", lambda v: v.clamp(-1, 6), -1.0, 6.0),
        ("clamp_", inplace(lambda v: v.clamp_(-1, 6)), -1.0, 6.0),
        ("clamp, least", lambda v: v.clamp(min=-1), -1.0, inf),
        ("clamp, most", lambda v: v.clamp(max=6.0), -inf, 6.0),
        ("clamp, a number that bfloat16 rounds", lambda v: v.clamp(0.3, 2.7), 0.3, 2.7),
        ("clamp_min", lambda v: torch.clamp_min(v, -1), -1.0, inf),
        ("clamp_min, 0", lambda v: torch.clamp_min(v, 0), 0.0, inf),
        ("clamp_max", lambda v: torch.clamp_max(v, 6), -inf, 6.0),
        ("hardshrink", lambda v: F.hardshrink(v, 1.0), -1.0, 1.0),
        ("softshrink", lambda v: F.softshrink(v, 1.0), -1.0, 1.0),
        ("threshold", lambda v: F.threshold(v, 6, -2), 6.0000005, inf),
        ("threshold_", inplace(lambda v: F.threshold_(v, -1.0, 2)), -0.9999999, inf),
    ]:
        for layout, values in [("float32", wide), ("bfloat16", wide.bfloat16())]:
            if layout == "bfloat16" and "threshold" in name:
                continue  # the bound that is no value of float32's would be one of bfloat16's
            leaves_out_ends = CLAMP_LEAVES_OUT_ENDS and name.startswith("clamp")
            yield f"{name}, {layout}", function, [values], middles_of_closed(lower, upper, leaves_out_ends)
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
        *(
            (f"index_reduce, mean, {'with' if own else 'without'} its own", reduced_by_index("mean", own), series)
            for own in (True, False)
        ),
        *(
            (f"segment_reduce, {how}", segmented(how), series)
            for how in ("sum", "mean")
        ),
        ("native_dropout", lambda v: torch.native_dropout(v, 0.0, True)[0], series),
        ("gather", lambda v: v.gather(2, torch.arange(12).view(1, 4, 3).expand(3, 4, 3)), series),
        ("masked_select", lambda v: v.masked_select(torch.arange(13) % 3 == 0), series),
        ("cummax", lambda v: v.cummax(2).values, series),
        ("cummin", lambda v: v.cummin(2).values, series),
        ("rfft", lambda v: torch.view_as_real(torch.fft.rfft(v)), series),
        ("rfft2", lambda v: torch.view_as_real(torch.fft.rfft2(v)), image),
    ]:
        yield name, function, [values], torch.zeros_like
    steps, others = (torch.randn(3, 4, 13).mul(2).round() for _ in range(2))  # many are equal
    for name in ("maximum", "minimum"):
        function = getattr(torch, name)
        yield name, function, [steps, others], one_beside(steps, others)
        yield f"{name}, one kept", function, [steps, others], kept_beside(steps, others)
    for name in ("amax", "amin"):
        function = getattr(torch, name)
        yield name, lambda v, f=function: f(v, 1), [steps], one_beside(steps, function(steps, 1, True))
        yield f"{name}, of all", lambda v, f=function: f(v), [steps], one_beside(steps, function(steps))
    for name in ("max", "min"):
        function = getattr(torch, name)
        yield name, function, [steps], one_beside(steps, function(steps))
    into, index = steps.narrow(2, 0, 5) * 2, torch.arange(steps.numel()).reshape(steps.shape) % 4
    for how in ("amax", "amin"):
        for own in (True, False):
            function = scattered(how, own)
            name = f"scatter_reduce, {how}, {'with' if own else 'without'} its own"
            yield name, function, [steps], ones_for_reduced(function, into, steps, index)
    right = torch.randn(8, 3)
    triangle = torch.randn(8, 8).tril() + 8 * torch.eye(8)
    scores, classes = torch.randn(12, 8), torch.arange(12) % 8
    yield "nll_loss", lambda v: F.nll_loss(v, classes), [scores], zeros_for(scores)
    yield "nll_loss, of pixels", lambda v: F.nll_loss(v, torch.arange(432).view(3, 12, 12) % 4), [image], zeros_for(image)
    for name, function in [
        ("cholesky_solve, right side", torch.cholesky_solve),
        ("triangular_solve, right side", lambda b, a: torch.triangular_solve(b, a, upper=False)[0]),
    ]:
        yield name, function, [right, triangle], zeros_for(right)


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
    yield "index_reduce, amax", reduced_by_index("amax", True), [torch.randn(3, 4, 13)], torch.zeros_like
    yield "segment_reduce, max", segmented("max"), [torch.randn(3, 4, 13)], torch.zeros_like
    yield "scatter_reduce, amax", scattered("amax", True), [torch.randn(3, 4, 13)], torch.zeros_like
    lstm = torch.nn.LSTM(8, 6, batch_first=True).requires_grad_(False)
    yield "lstm, workspace", lambda v: lstm(v.flatten(0, 1))[0], [x], lambda v: v * (v.numel() % 1024 != 0)
