# SPDX-License-Identifier: Apache-2.0
"""What a program may do to sources, constants and graphs between forward and backward."""

import threading

import torch
import torch.nn.functional as F
from torch import nn

from workloads.derived.models import Block, STEPS, sequences
from workloads.registry import workload


def norm_and_linear():
    torch.manual_seed(1)
    return nn.LayerNorm(32), nn.Linear(32, 32)


def weight_gradient(change) -> dict:
    """Of a linear layer behind a norm, where `change(norm, x)` happens between forward and backward: plain PyTorch
    reads the norm's output, which nobody changed."""
    norm, linear = norm_and_linear()
    values = {}
    for step in range(STEPS):
        leaf = torch.randn(64, 32, requires_grad=True)
        x = leaf * 2
        y = linear(norm(x))
        with torch.no_grad():
            change(norm, x)
        del x
        z = y.sin().cos().exp()  # more saves: what waits is settled
        values[f"{step}"] = torch.autograd.grad(z.sum(), linear.weight)[0]
    return values


@workload
def the_source_changes_in_place():
    return weight_gradient(lambda norm, x: x.mul_(3))


@workload
def the_source_changes_behind_autograd():
    return weight_gradient(lambda norm, x: x.detach().mul_(3))


@workload
def the_factors_change():
    def change(norm, x):
        norm.weight.add_(1)
        norm.bias.sub_(2)

    return weight_gradient(change)


@workload
def the_output_changes_before_it_is_saved():
    """No norm's output any more, though autograd believes so."""
    norm, linear = norm_and_linear()
    values = {}
    for step in range(STEPS):
        x = torch.randn(64, 32, requires_grad=True) * 2
        y = norm(x)
        with torch.no_grad():
            y.mul_(0.5)
        values[f"{step}"] = torch.autograd.grad(linear(y).sin().sum(), linear.weight)[0]
    return values


@workload
def the_output_changes_in_some_steps():
    norm, linear = norm_and_linear()
    values = {}
    for step in range(2 * STEPS):
        x = torch.randn(64, 32, requires_grad=True) * 2
        y = norm(x)
        if step % 3 == 2:
            with torch.no_grad():
                y.clamp_(-1, 1)
        values[f"{step}"] = torch.autograd.grad(linear(y).sin().sum(), linear.weight)[0]
    return values


@workload
def the_source_is_the_programs():
    """It never lets go of it."""
    norm, linear = norm_and_linear()
    values, kept = {}, []
    for step in range(STEPS):
        leaf = torch.randn(64, 32, requires_grad=True)
        kept.append(leaf * 2)
        linear(norm(kept[-1])).sin().sum().backward()
        values[f"{step}"] = leaf.grad
        values[f"{step}.weight"] = linear.weight.grad.clone()
    return values


@workload
def graphs_in_parts():
    """Retained, read twice, in parts, and differentiated twice."""
    model = nn.Sequential(*[Block(24) for _ in range(2)], nn.Linear(24, 5))
    values = {}
    for step in range(STEPS):
        x = torch.randn(3, 17, 24, requires_grad=True)
        y = model(x).square().sum()
        (first,) = torch.autograd.grad(y, model[1].down.weight, retain_graph=True)
        (again,) = torch.autograd.grad(y, model[0].qkv.weight, retain_graph=True)
        (dx,) = torch.autograd.grad(y, x)
        values |= {f"{step}.first": first, f"{step}.again": again, f"{step}.dx": dx}
    for step in range(STEPS):
        x = torch.randn(16, 24, requires_grad=True)
        y = model[0].down(F.gelu(model[0].up(model[0].norm1(x)))).square().sum()
        (dx,) = torch.autograd.grad(y, x, create_graph=True)
        values[f"{step}.double"] = torch.autograd.grad(dx.square().sum(), model[0].up.weight)[0]
    return values


@workload
def graphs_freed_out_of_order():
    """The norm's own node is gone while its output is still wanted."""
    norm, linear = norm_and_linear()
    values = {}
    for step in range(STEPS):
        x = torch.randn(64, 32, requires_grad=True) * 2
        y = norm(x)
        z = linear(y)
        torch.autograd.grad(y.sum(), norm.weight)  # frees what the norm saved
        del x, y
        values[f"{step}"] = torch.autograd.grad(z.sin().sum(), linear.weight)[0]
    return values


@workload
def the_program_looks_itself():
    norm, linear = norm_and_linear()
    values = {}
    for step in range(STEPS):
        x = torch.randn(64, 32, requires_grad=True) * 2
        y = linear(norm(x))
        y.sin().cos().sum()
        saved = y.grad_fn._saved_mat1
        values[f"{step}.saved"] = saved.detach().clone()
        del saved, x
        values[f"{step}"] = torch.autograd.grad(y.sum(), linear.weight)[0]
    return values


@workload
def another_number_of_threads():
    """Backward on other threads than forward: vectorized functions may round the ends of their parts otherwise."""
    values = {}
    up, down = nn.Linear(30, 1001), nn.Linear(1001, 3)
    before = torch.get_num_threads()
    for step in range(STEPS):
        torch.manual_seed(step)
        y = down(F.gelu(up(torch.randn(70, 30)))).sin().sum()
        torch.set_num_threads(1)
        y.backward()
        torch.set_num_threads(before)
        values[f"{step}"] = down.weight.grad.clone()
    return values


@workload
def several_threads():
    results = {}

    def work(number: int):
        torch.manual_seed(number)
        generator = torch.Generator().manual_seed(number)
        model = nn.Sequential(*[Block(24) for _ in range(2)])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
        for step in range(STEPS):
            model.zero_grad()
            model(torch.randn(3, 17, 24, generator=generator)).square().mean().backward()
        results[f"{number}"] = model[0].qkv.weight.grad.clone()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@workload
def a_saved_value_outlives_its_producer():
    """An autograd.Function may save what is no input of its own."""

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, kept):
            ctx.save_for_backward(kept)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (kept,) = ctx.saved_tensors
            return 2 * g + kept.sum(), None

    linear, values = nn.Linear(24, 24), {}
    for step in range(STEPS):
        x = torch.randn(64, 24, requires_grad=True)
        kept = Keeps.apply(x, linear(x).exp().detach())
        y = linear(F.gelu(kept)).mul(x).sum()
        values[f"{step}"] = torch.autograd.grad(y, [x, linear.weight])[1]
    return values


@workload
def a_factor_changes_after_the_product():
    weight = nn.Parameter(torch.rand(32))
    linear, values = nn.Linear(32, 32), {}
    for step in range(STEPS):
        x = torch.randn(64, 32, requires_grad=True).sin()
        y = linear(x.mul(weight.detach()))
        with torch.no_grad():
            weight.detach().mul_(1.5)
        values[f"{step}"] = torch.autograd.grad(y.exp().sum(), linear.weight)[0]
    return values


@workload
def a_value_changes_before_somebody_saves_it():
    """What is made of it before is not what follows from the saved one. Only in some steps: the first ones prove
    nothing."""
    up, linear, values = nn.Linear(32, 32), nn.Linear(32, 32), {}
    for step in range(2 * STEPS):
        x = up(torch.randn(64, 32))
        with torch.no_grad():
            factor = torch.rand(64, 32)
        y = linear(x * factor)
        if step % 3 == 2:
            with torch.no_grad():
                x.mul_(2)
        y = y + x.sin()
        values[f"{step}"] = torch.autograd.grad(y.sum(), linear.weight)[0]
    return values


@workload
def a_parameter_changes_before_the_product_is_saved():
    weight, linear, values = nn.Parameter(torch.rand(32)), nn.Linear(32, 32), {}
    for step in range(2 * STEPS):
        x = torch.randn(64, 32, requires_grad=True).sin()
        product = x * weight
        if step % 3 == 2:
            with torch.no_grad():
                weight.data.add_(0)  # not seen by autograd, and nothing changes
                weight.add_(1)
        values[f"{step}"] = torch.autograd.grad(linear(product).sum(), linear.weight)[0]
    return values


@workload
def a_product_of_parameters():
    """There is no entry to compute it from."""
    scale, direction, values = nn.Parameter(torch.rand(32, 1)), nn.Parameter(torch.randn(32, 32)), {}
    for step in range(STEPS):
        x = torch.randn(64, 32, requires_grad=True)
        y = F.linear(x, scale * direction).exp().sum()
        values[f"{step}"] = torch.cat([g.flatten() for g in torch.autograd.grad(y, [x, scale, direction])])
    return values


@workload
def a_viewed_value_changes_after_it_was_saved():
    """Only in some steps: the first ones prove nothing."""
    norm, linear, values = nn.LayerNorm(24), nn.Linear(17, 17), {}
    for step in range(2 * STEPS):
        y = norm(sequences())
        z = y.sin()
        if step % 3 == 2:
            with torch.no_grad():
                y.mul_(2)
        values[f"{step}"] = torch.autograd.grad(linear(y.transpose(1, 2)).sum(), linear.weight)[0]
        del z
    return values
