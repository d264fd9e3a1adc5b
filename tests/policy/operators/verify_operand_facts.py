# SPDX-License-Identifier: Apache-2.0
"""Checks policy/operators/operand.cpp against the installed torch.

For every operand said to be read for its sign or an interval only, or not at all, training with that
saved tensor replaced by what Cinch would restore (1 where x > 0 and 0 elsewhere; the interval's middle
inside and its lower bound outside; zeros) gives the same gradients bit for bit. For every factor, small errors in
what is saved make small errors in the gradients: nothing is compared or divided by. Of what is said to be saved for
the gradients of others, errors do not change its own. Of angles, errors that are small beside 1 do, not those that are
small beside the values. Of what is exact, the same errors change gradients much. As a check of the checks, the same
replacements change gradients where values are read.
"""

import sys

import operand_errors
import operand_reads
import torch
from torch.autograd.graph import saved_tensors_hooks


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


def size_of(x):
    return x.abs().float().square().mean().sqrt()


def error_of(function, inputs, double=False, chosen=lambda x: True, size=size_of):
    """Relative error of the gradients when a thousandth of its size is added to each chosen float tensor that is saved."""

    generator = torch.Generator().manual_seed(1)

    def off(x):
        if not chosen(x):
            return x
        noise = torch.randn(*x.shape, 2, generator=generator)
        noise = torch.view_as_complex(noise) if x.is_complex() else noise[..., 0]
        return x + 1e-3 * noise.to(x) * size(x).to(x)

    right = gradients(function, inputs, None, double)
    assert all(a.isfinite().all() for a in right), "choose other inputs"
    pairs = zip(right, gradients(function, inputs, off, double))
    return max(((a - b).norm() / a.norm()).item() for a, b in pairs if a.norm() > 0)


def tolerates(error):
    return error <= 0.02  # not so if it is NaN


def misread():
    """(name, whether the facts about it hold) for each operator of which signs, intervals or nothing is read."""
    for name, function, inputs, replace in operand_reads.cases():
        for double in (False, True):
            if double and name.startswith(operand_reads.WITHOUT_SECOND_DERIVATIVE):
                continue
            exact, restored = (gradients(function, inputs, how, double) for how in (None, replace))
            yield f"{name}{' (double backward)' if double else ''}: what Cinch restores", same(exact, restored)
    for name, function, inputs, replace in operand_reads.values_matter():
        noticed = not same(gradients(function, inputs), gradients(function, inputs, replace))
        yield f"{name}: other values, as a check of the checks", noticed


def mistaken_for_others():
    """The same for what is saved for the gradients of other operands."""
    generator = torch.Generator().manual_seed(2)
    values = [torch.randn(3, 4, 8, 8, generator=generator) for _ in range(2)]
    for name, function in operand_errors.products():
        for of in (0, 1):

            def off(x):
                return x + torch.isin(x, values[of]).all()  # where it is a view of that operand

            right, wrong = gradients(function, values), gradients(function, values, off)
            alone = torch.equal(right[of], wrong[of]) and not torch.equal(right[1 - of], wrong[1 - of])
            yield f"{name}: operand {of + 1} is for the other's gradient alone", alone


def misjudged():
    """The same for what is approximated, or exact."""
    inputs = [torch.randn(3, 4, 8, 8), torch.randn(3, 4, 8, 8)]
    numbers = [torch.randn(3, 4, 8, 8, dtype=torch.complex64), torch.randn(3, 4, 8, 8, dtype=torch.complex64)]
    wide = [x**5 for x in inputs]
    for kind, functions, values, double, good in [
        ("factor", operand_errors.factors(), inputs, False, True),
        ("complex factor", operand_errors.complex_factors(), numbers, False, True),
        ("factor of a second derivative", operand_errors.second_factors(), inputs, True, True),
        ("near a pole", operand_errors.poles(), numbers[:1], False, False),
        ("exact", operand_errors.deciding(), wide, False, False),
        ("exact in a second derivative", operand_errors.second_deciding(), wide, True, False),
        ("exact, of matrices close to singular ones", operand_errors.matrices(), inputs[:1], False, False),
    ]:
        for name, function, *chosen in functions:
            yield f"{name}: {kind}", tolerates(error_of(function, values, double, *chosen)) == good
    for name, function in operand_errors.angles():
        far = [100 * x.double().clamp(-1, 1) for x in inputs]
        everything = (far, False, lambda x: True)
        yield f"{name}: angle, by absolute errors", tolerates(error_of(function, *everything, lambda x: torch.ones(())))
        yield f"{name}: angle, by relative errors", not tolerates(error_of(function, *everything))


def main():
    torch.manual_seed(0)
    checks = [*misread(), *mistaken_for_others(), *misjudged()]
    failures = [name for name, holds in checks if not holds]
    for failure in failures:
        print(f"not as operand.cpp says: {failure}")
    print(f"torch {torch.__version__}: {len(checks) - len(failures)} of {len(checks)} facts hold")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
