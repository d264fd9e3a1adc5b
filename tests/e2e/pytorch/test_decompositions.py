# SPDX-License-Identifier: Apache-2.0
"""Decompositions: what their backward magnifies errors of is held exactly (docs/operands.md)."""

import pytest
import torch

import harness

DECOMPOSED = """
import sys
import torch
torch.manual_seed(0)
w = (torch.randn(64, 64) / 8).requires_grad_()
data, noise = torch.randn(256, 64), torch.randn(64, 64)
written = {}


def product(a):
    "Approximated: saved alike, but for what becomes of it."
    return (torch.complex(a, noise) @ torch.complex(a, noise)).real


def exponential(a):
    values, vectors = torch.linalg.eig(a)
    return ((vectors * values.exp()) @ torch.linalg.inv(vectors)).real


def exponentials(a):
    values, vectors = torch.linalg.eig(a.view(4, 16, 64).narrow(-1, 0, 16))
    return ((vectors * values.exp().unsqueeze(-2)) @ torch.linalg.inv(vectors)).real.reshape(-1, 64)


def root(a):
    u, values, vh = torch.linalg.svd(torch.complex(a, noise))
    return ((u * values.sqrt().to(u.dtype)) @ vh).real


def of_hermitian(a):
    values, vectors = torch.linalg.eigh(torch.complex(a + a.T, noise - noise.T))
    return (vectors @ torch.diag_embed(values.sin()).to(vectors.dtype) @ vectors.mH).real


def projected(a):
    "What is saved of data belongs to no graph."
    _, vectors = torch.linalg.eigh(a + a.T)
    return (data * 1.5) @ vectors


for step in range(3):
    for function in (product, exponential, exponentials, root, of_hermitian, projected):
        w.grad = None
        (function(w * 1.0).sin() @ noise).square().mean().backward()
        written[f"{function.__name__} {step}"] = w.grad.clone()
torch.save(written, sys.argv[1])
"""

BEFORE = """
import sys
import torch
torch.manual_seed(0)
data, noise = torch.randn(256, 32), torch.randn(256)
net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
scales, size = torch.nn.Parameter(torch.zeros(16)), torch.nn.Parameter(torch.ones(()))
written = {}


class Solve(torch.autograd.Function):
    "As linear_operator's."

    @staticmethod
    def forward(ctx, matrix, right):
        solution = torch.linalg.solve(matrix, right)
        ctx.save_for_backward(matrix, solution)
        return solution

    @staticmethod
    def backward(ctx, gradient):
        matrix, solution = ctx.saved_tensors
        right = torch.linalg.solve(matrix.mT, gradient)
        return -right @ solution.mT, right


def likelihood(squares, solve):
    matrix = size * (-0.1 * squares).exp() + 0.01 * torch.eye(256)
    solution = solve(matrix, noise.unsqueeze(1))
    return (noise.unsqueeze(1) * solution).sum() / 256


def by_products(z):
    "A Gaussian process whose distances are of products."
    norms = z.square().sum(1)
    return likelihood(norms.unsqueeze(1) + norms - 2 * z @ z.T, torch.linalg.solve)


def by_differences(z):
    def solve(matrix, right):
        return torch.cholesky_solve(right, torch.linalg.cholesky(matrix))

    return likelihood((z.unsqueeze(1) - z).square().sum(-1), solve)


def by_function(z):
    return likelihood((z.unsqueeze(1) - z).square().sum(-1), Solve.apply)


def ridge(z):
    "Regression in features."
    weights = torch.linalg.solve(z[:192].T @ z[:192] + 0.01 * torch.eye(16), z[:192].T @ data[:192])
    return (z[192:] @ weights - data[192:]).square().mean()


def covariances(z):
    factors = z.view(256, 4, 4)
    return torch.linalg.inv(factors @ factors.mT + 0.01 * torch.eye(4)).diagonal(dim1=1, dim2=2).log().mean()


def layers(z):
    "Approximated: no decomposition."
    return (z[:, :12].tanh() @ z[:, 4:].T).sin().square().mean()


for step in range(3):
    for function in (by_products, by_differences, by_function, ridge, covariances, layers):
        net.zero_grad()
        function(net(data) / scales.exp()).backward()
        written[f"{function.__name__} {step}"] = net[2].bias.grad.clone()
torch.save(written, sys.argv[1])
"""


def errors_of(script, tmp_path):
    """Of each gradient under the preset `default`, relative to its size; and what the report says was off."""
    harness.run_python(["-c", script, tmp_path / "plain.pt"], tmp_path / "plain")
    run = harness.run_python(["-c", script, tmp_path / "cinch.pt"], tmp_path / "cinch", harness.preset("default"))
    plain, cinch = (torch.load(tmp_path / name) for name in ("plain.pt", "cinch.pt"))
    errors = {name: float((cinch[name] - each).norm() / each.norm()) for name, each in plain.items()}
    return errors, [event["subject"] for event in run.report["events"] if event["kind"] == "decomposition"]


def test_eigenvectors_and_singular_vectors_get_exact_gradients(tmp_path):
    """Else their backward magnifies errors, and refuses a complex matrix of which they make the phase matter."""
    errors, _ = errors_of(DECOMPOSED, tmp_path)
    assert errors["product 2"] > 0.001
    assert max(error for name, error in errors.items() if "product" not in name) < 0.01, errors


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return errors_of(BEFORE, tmp_path_factory.mktemp("before"))


@pytest.mark.parametrize("name", ["by_products", "by_differences", "by_function", "ridge", "covariances"])
def test_what_a_matrix_is_made_of_is_exact_from_the_second_step_on(before, name):
    """Else its inverse magnifies errors that are small of themselves."""
    errors, _ = before
    assert errors["layers 2"] > 0.001
    assert max(errors[f"{name} {step}"] for step in (1, 2)) < 0.01, errors


def test_what_was_off_in_the_first_step_is_told(before):
    _, off = before
    assert any("pow self" in operand for operand in off), off
