# SPDX-License-Identifier: Apache-2.0
"""Operators whose operands tolerate small errors, and such as do not, for verify_operand_facts.py."""

import torch
import torch.nn.functional as F


def only(values):
    """Whether a saved tensor is the one of these values."""
    return lambda x: x.shape == values.shape and torch.equal(x, values)


def at(values, a):
    """These values, of which `a` gets the gradient."""
    return values.detach() + (a - a.detach())


def not_grid(x):
    """Whether a saved tensor of grid_sampler is what is sampled. (tanh saves a tensor of the grid's shape, too.)"""
    return x.shape[-1] != 2


def not_square(x):
    """Whether a saved tensor of a solver is the right side or the solution."""
    return x.dim() < 2 or x.shape[-1] != x.shape[-2]


class Arguments(torch.autograd.Function):
    """Saves its arguments, and gives the gradients that `backward` computes from them."""

    @staticmethod
    def forward(ctx, backward, *arguments):
        ctx.of = backward
        ctx.save_for_backward(*arguments)
        return sum(x.sum() for x in arguments)

    @staticmethod
    def backward(ctx, grad):
        gradients = [g for g in ctx.of(*ctx.saved_tensors) if g is not None]
        return None, gradients[0], *(torch.zeros_like(x) for x in ctx.saved_tensors[1:])


def through_arguments(backward, widths):
    """A function that saves 12 rows of each of these widths, and has the gradients of `backward`."""
    return lambda a, b: Arguments.apply(backward, *(a.flatten()[: 12 * n].view(12, n) for n in widths))


def well(a):
    """A matrix far from singular ones."""
    return a[0, 0] + 8 * torch.eye(8)


def products():
    """Functions of two tensors of which each is saved for the other's gradient alone."""
    yield "mul", lambda a, b: a * b
    yield "linalg_cross", lambda a, b: torch.linalg.cross(a[..., :3], b[..., :3])
    yield "mm", lambda a, b: a.flatten(0, 2) @ b.flatten(0, 2).T
    yield "addmm", lambda a, b: torch.addmm(torch.ones(96), a.flatten(0, 2), b.flatten(0, 2).T)
    yield "bmm", lambda a, b: a.flatten(0, 1) @ b.flatten(0, 1)
    yield "baddbmm", lambda a, b: torch.baddbmm(torch.ones(8), a.flatten(0, 1), b.flatten(0, 1))
    yield "addbmm", lambda a, b: torch.addbmm(torch.ones(8), a.flatten(0, 1), b.flatten(0, 1))
    yield "mv", lambda a, b: a.flatten(0, 2) @ b[0, 0, 0]
    yield "addmv", lambda a, b: torch.addmv(torch.ones(96), a.flatten(0, 2), b[0, 0, 0])
    yield "addr", lambda a, b: torch.addr(torch.ones(8), a[0, 0, 0], b[0, 0, 0])
    yield "dot", lambda a, b: a.flatten().dot(b.flatten())[None]
    yield "conv2d", lambda a, b: F.conv2d(a, b, padding=1)
    yield "conv_transpose2d", lambda a, b: F.conv_transpose2d(a.transpose(0, 1), b)
    yield "conv_tbc", lambda a, b: torch.conv_tbc(a[0], b[0], torch.ones(8))


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
    yield "log_softmax, where no class is certain", lambda a, b: a.log_softmax(-1)
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
    yield "grid_sampler_2d", lambda a, b: F.grid_sample(a, b[..., :2].tanh(), align_corners=False), not_grid
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
    yield "ldexp", lambda a, b: torch.ldexp(a, b.detach().round()) * torch.ldexp(a.detach(), b)
    yield "vector_norm", lambda a, b: torch.linalg.vector_norm(a, dim=-1)
    yield "vector_norm, order 3", lambda a, b: torch.linalg.vector_norm(a, 3, dim=-1)
    yield "norm", lambda a, b: torch.ops.aten.norm(a, 2)
    yield "norm, order 2.5", lambda a, b: torch.ops.aten.norm(a, 2.5, [1])
    yield "dist", lambda a, b: torch.dist(a, b)
    yield "dist, order 4", lambda a, b: torch.dist(a, b, 4)
    yield "_grid_sampler_2d_cpu_fallback", lambda a, b: torch.ops.aten._grid_sampler_2d_cpu_fallback(
        a, b[..., :2].tanh(), 0, 0, False
    ), not_grid
    some = torch.rand(3, 4, 8, 8)
    yield "binary_cross_entropy, weight", lambda a, b: F.binary_cross_entropy(
        a.sigmoid(), b.detach().sigmoid(), some, reduction="none"
    ), only(some)
    yield "binary_cross_entropy_with_logits, weights", lambda a, b: F.binary_cross_entropy_with_logits(
        a, b.sigmoid(), some, reduction="none", pos_weight=some[0, 0]
    )
    yield "solve", lambda a, b: torch.linalg.solve(well(a), b[0, 0, :, :3]), not_square
    yield "lu_solve", lambda a, b: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(well(a)), b[0, 0, :, :3].contiguous()
    ), not_square
    yield "solve_triangular", lambda a, b: torch.linalg.solve_triangular(
        well(a).tril(), b[0, 0, :, :3], upper=False
    ), not_square
    yield "triangular_solve", lambda a, b: torch.triangular_solve(b[0, 0, :, :3], well(a))[0], not_square
    yield "cholesky_solve", lambda a, b: torch.cholesky_solve(b[0, 0, :, :3], well(a).tril()), not_square
    # What the backward of a fused cell computes when it is differentiated itself; the cells run on CUDA only.
    cell = torch.ops.aten._thnn_differentiable_lstm_cell_backward
    gru_cell = torch.ops.aten._thnn_differentiable_gru_cell_backward
    yield "_thnn_fused_lstm_cell", through_arguments(
        lambda gates, more, cx, cy: cell(None, torch.ones(12, 8), gates, more, None, None, cx, cy), (32, 32, 8, 8)
    )
    yield "_thnn_fused_gru_cell", through_arguments(
        lambda gates, more, hx: gru_cell(torch.ones(12, 8), gates, more, hx, None, None), (24, 24, 8)
    )


def angles():
    """Functions of two tensors that save angles, however large."""
    for name in "sin cos sinc sinh cosh i0".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a)
    yield "ldexp", lambda a, b: torch.ldexp(a.detach(), b)



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

    yield "elu_backward", lambda a, b: F.elu(a + a.detach().sign())
    yield "soft_margin_loss_backward", lambda a, b: F.soft_margin_loss(a, b.detach(), reduction="none")
    slopes = torch.tensor([0.2, -0.5, 0.1, 2.0])
    yield "_prelu_kernel_backward, gradient", lambda a, b: F.prelu(a + a.detach().sign(), slopes)
    yield "_slow_conv2d_backward", lambda a, b: torch.ops.aten._slow_conv2d_forward(
        a, b[:, :, :3, :3].contiguous(), [3, 3], None, [1, 1], [1, 1]
    )


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
    yield "acosh", lambda a, b: (1.001 + a.abs()).acosh()
    # The error of a logarithm is the relative error of what it is the logarithm of.
    yield "log_softmax", lambda a, b: a.log_softmax(-1)
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
        a.view(12, 8, 8) / 20, torch.ones(8, 3).long(), torch.full((8,), 12), torch.full((8,), 3), 0, 0
    )
    yield "fake_quantize", lambda a, b: torch._fake_quantize_learnable_per_tensor_affine(
        a, torch.tensor([1e-3]), torch.tensor([0.0]), -8, 7
    )
    yield "pow, 1.5", lambda a, b: (a * a) ** 1.5
    yield "pow, -0.5", lambda a, b: (1e-9 + a * a * 1e-6) ** -0.5
    yield "norm of the largest", lambda a, b: torch.linalg.vector_norm(a, float("inf"), -1)
    for name in "digamma lgamma".split():
        yield name, lambda a, b, f=getattr(torch, name): f(a)
    yield "polygamma", lambda a, b: torch.polygamma(1, 0.01 + a.abs())
    yield "mvlgamma", lambda a, b: torch.mvlgamma(0.51 + a.abs(), 2)
    yield "igamma", lambda a, b: torch.igamma(1 + b.detach().abs(), a.abs())
    yield "igammac", lambda a, b: torch.igammac(1 + b.detach().abs(), a.abs())
    yield "zeta", lambda a, b: torch.special.zeta(torch.tensor(2.0), 0.01 + a.abs())
    for name in "i0e i1e".split():
        yield name, lambda a, b, f=getattr(torch.special, name): f(a)
    yield "erfcx", lambda a, b: torch.special.erfcx(a.abs())
    yield "log_ndtr", lambda a, b: torch.special.log_ndtr(-a.abs() / 10)
    yield "i1", lambda a, b: torch.special.i1(a / 20)
    yield "erfinv", lambda a, b: torch.erfinv(1 - 1e-6 - a.abs() / (1 + a.abs().max()))
    yield "ndtri", lambda a, b: torch.special.ndtri(1e-6 + a.abs() / (1 + a.abs().max()))
    yield "_standard_gamma", seeded(lambda a: torch._standard_gamma(a.abs()))
    yield "pow, exponent", lambda a, b: torch.pow(1 + a.detach().sigmoid(), 100 * b.clamp(-1, 1))
    yield "sgn", lambda a, b: torch.view_as_real(torch.complex(a, b).sgn())
    yield "angle", lambda a, b: torch.complex(a, b).angle()
    yield "polar", lambda a, b: torch.view_as_real(torch.polar(a, b / 100))
    yield "renorm", lambda a, b: (a / a.detach().norm(dim=-1, keepdim=True)).view(96, 8).renorm(2, 0, 1.0)
    yield "vector_norm, order 1", lambda a, b: torch.linalg.vector_norm(a, 1, -1)
    yield "dist, order 1", lambda a, b: torch.dist(a, b, 1)
    labels = torch.tensor([[1, 3, -1, 0, 0, 0, 0, 0]]).expand(96, 8).contiguous()
    yield "multilabel_margin_loss", lambda a, b: F.multilabel_margin_loss(
        at(1 + (a > 0).float(), a).view(96, 8), labels, reduction="none"
    ), lambda x: x.max() > 1  # not is_target, which PyTorch checks
    yield "index_reduce, prod", lambda a, b: a[:2].index_reduce(0, torch.tensor([1, 0, 1]), b, "prod")
    yield "segment_reduce, prod", lambda a, b: torch.segment_reduce(a, "prod", lengths=torch.tensor([2, 1]))
    target = (torch.arange(768).view(3, 4, 8, 8) % 2).float()
    yield "binary_cross_entropy, target", lambda a, b: F.binary_cross_entropy(
        at(1e-4 + target * (1 - 2e-4), a), target, reduction="none"
    ), only(target)


def second_deciding():
    """The same, whose gradients' gradients save what has to be exact."""
    yield "hardshrink_backward", lambda a, b: F.hardshrink(at(0.5001 * a.sign(), a)) * a
    yield "softshrink_backward", lambda a, b: F.softshrink(at(0.5001 * a.sign(), a)) * a
    yield "hardtanh_backward", lambda a, b: F.hardtanh(at(a.sign(), a)) * a
    yield "threshold_backward", lambda a, b: F.threshold(a, 0.1, 0.0) * a
    yield "hardswish_backward", lambda a, b: F.hardswish(at(3 * a.sign(), a))
    yield "_prelu_kernel_backward", lambda a, b: F.prelu(a, b.flatten()[:4])


def seeded(function):
    def with_seed(a, b):
        torch.manual_seed(0)
        return function(a)

    return with_seed


def matrices():
    """Functions of a tensor that make a matrix of it, close to a singular one, and save what they factorize it into."""

    def close(a):
        first = a[0, 0, 0]
        return torch.cat([torch.stack([first, first + 1e-4 * a[0, 1, 0]]), a[0, 0, 2:]]).T.double()

    def positive(a):
        return close(a).T @ close(a) + 1e-6 * torch.eye(8)

    def triangle(a):
        return a[0, 0].double().tril(-1) + torch.tensor([1, 1e-4, 1, 1, 1e-4, 1, 1, 1]).double().diag()

    def unit(a):
        """Eigenvalues close to each other."""
        return torch.eye(8) + 1e-3 * (a[0, 0] + a[0, 0].T).double()

    def reflections(a):
        """Close to where reflections have no derivative."""
        vectors = a[0, 0].double()
        return vectors, 1.001 / (1 + vectors.detach().tril(-1).square().sum(0))

    linalg, right = torch.linalg, torch.randn(8, 2, dtype=torch.float64)
    for name, matrix, function in [
        ("inv", close, linalg.inv),
        ("det", close, linalg.det),
        ("slogdet", close, lambda m: linalg.slogdet(m)[1]),
        ("pinv", close, linalg.pinv),
        ("qr", close, lambda m: linalg.qr(m)[1]),
        ("lu", close, lambda m: linalg.lu(m)[2]),
        ("lu_factor", close, lambda m: linalg.lu_factor(m)[0]),
        ("lstsq", close, lambda m: linalg.lstsq(m, right)[0]),
        ("solve", close, lambda m: linalg.solve(m, right)),
        ("lu_solve", close, lambda m: linalg.lu_solve(*linalg.lu_factor(m), right)),
        ("solve_triangular", triangle, lambda m: linalg.solve_triangular(m, right, upper=False)),
        ("triangular_solve", triangle, lambda m: torch.triangular_solve(right, m, upper=False)[0]),
        *([("cholesky", positive, torch.cholesky)] if hasattr(torch.ops.aten, "cholesky") else []),  # not since 2.15
        ("cholesky_ex", positive, linalg.cholesky),
        ("cholesky_inverse", positive, lambda m: torch.cholesky_inverse(linalg.cholesky(m))),
        ("cholesky_solve", positive, lambda m: torch.cholesky_solve(right, linalg.cholesky(m))),
        ("eigh", unit, lambda m: linalg.eigh(m)[1]),
        ("svd", unit, lambda m: linalg.svd(m)[0]),
        ("eig", unit, lambda m: linalg.eig(m)[1].abs()),
        ("householder_product", reflections, lambda m: linalg.householder_product(*m)),
        ("ormqr", reflections, lambda m: torch.ormqr(*m, right)),
    ]:
        yield name, lambda a, f=function, m=matrix: f(m(a))
