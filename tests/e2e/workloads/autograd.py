# SPDX-License-Identifier: Apache-2.0
"""Everything else that programs do with autograd: graphs used twice, recomputed, differentiated again,
watched, transformed, extended and abandoned."""

import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from workloads.models import Block, ConvNet, cross_entropy
from workloads.registry import workload
from workloads.training import gradients, train


def leaf(*shape, **options):
    return torch.randn(*shape, requires_grad=True, **options)


def deep(x, depth: int = 6):
    """A chain in which every intermediate is saved and soon nobody else's."""
    for i in range(depth):
        x = (x * (1 + 0.1 * i)).sin()
    return x


@workload
def retained_graph():
    x = leaf(32, 32)
    y = deep(x)
    written = {}
    for i in range(3):
        (written[f"grad{i}"],) = torch.autograd.grad(y.square().sum() if i == 0 else y.sum(), x, retain_graph=True)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return written | {"accumulated": x.grad}


@workload
def double_backward():
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))
    x = leaf(24, 16)
    (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    penalty = (grad.norm(dim=1) - 1).square().mean()
    penalty.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None} | {"penalty": penalty.detach()}


@workload
def physics_informed():
    """Second derivatives with respect to the inputs are part of the loss; each step builds two more graphs."""
    model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))

    def residual(points):
        x = points.requires_grad_()
        u = model(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (dxx,) = torch.autograd.grad(du[:, 0].sum(), x, create_graph=True)
        return du[:, 1] + u[:, 0] * du[:, 0] - 0.1 * dxx[:, 0]

    parameters, written = list(model.parameters()), {}
    for step in range(3):
        loss = residual(torch.rand(256, 2)).square().mean()
        written |= {f"{step}.{i}": g for i, g in enumerate(torch.autograd.grad(loss, parameters, allow_unused=True)) if g is not None}
    return written


@workload
def inner_steps_of_gradient_descent():
    """MAML: the outer loss is differentiated through two inner steps."""
    first, second = leaf(16, 64), leaf(64, 4)
    written = {}
    for step in range(3):
        x, y = torch.randn(64, 16), torch.randn(64, 4)
        weights = [first, second]
        for _ in range(2):
            loss = F.mse_loss(torch.tanh(x @ weights[0]) @ weights[1], y)
            weights = [w - 0.1 * g for w, g in zip(weights, torch.autograd.grad(loss, weights, create_graph=True))]
        loss = F.mse_loss(torch.tanh(x @ weights[0]) @ weights[1], y)
        written |= {f"{step}.{i}": g for i, g in enumerate(torch.autograd.grad(loss, [first, second]))}
    return written


@workload
def a_graph_of_a_backward_outlives_the_first():
    x = leaf(64, 64)
    y = deep(x, 4)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    del y
    others = [deep(leaf(64, 64), 4).sum() for _ in range(3)]
    (second,) = torch.autograd.grad(first.square().sum(), x, retain_graph=True)
    (again,) = torch.autograd.grad(first.square().sum(), x)
    return {"first": first.detach(), "second": second, "again": again, "others": sum(others).detach()}


@workload
def what_a_backward_read_is_changed():
    """Through the graph's own saved tensor, which the program may write to, between two backwards."""
    a, b = leaf(64, 32), leaf(64, 32)
    x = a * 2
    y = x * b
    (dx,) = torch.autograd.grad(y.square().sum(), a, create_graph=True)
    with torch.no_grad():
        x.add_(1)
    try:
        (second,) = torch.autograd.grad(dx.square().sum(), b)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error), error
        return {"refused": torch.ones(1), "dx": dx.detach()}
    return {"second": second, "dx": dx.detach()}


@workload
def third_derivative():
    x = leaf(64)
    y = deep(x, 3).sum()
    written = {}
    for order in range(1, 4):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        written[f"order{order}"] = y.detach().clone()
    return written


@workload
def gradients_of_chosen_inputs():
    """Parts of a graph only: unused inputs, a gradient of an intermediate, the rest dropped."""
    x, y, unused = leaf(32, 32), leaf(32, 32), leaf(32, 32)
    middle = deep(x)
    output = deep(middle * y)
    first = torch.autograd.grad(output.sum(), (middle, unused), retain_graph=True, allow_unused=True)
    middle.retain_grad()
    output.sum().backward(inputs=[y, middle])
    return {"middle": first[0], "unused_is_none": first[1] is None, "y": y.grad, "retained": middle.grad}


@workload
def gradient_hooks():
    x = leaf(32, 32)
    seen = []
    y = deep(x)
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: seen.append(g.clone()))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    y.grad_fn.register_prehook(lambda grads: tuple(g + 1 for g in grads))
    deep(y).sum().backward()
    return {"grad": x.grad, "incoming": seen[0], "accumulated": seen[1]}


@workload
def checkpointed():
    """Both kinds of checkpoint, around blocks with dropout, and nested."""
    written = {}
    for reentrant in (True, False):
        torch.manual_seed(2)
        blocks = nn.ModuleList([Block(32, 2), Block(32, 2), Block(32, 2)])
        x = leaf(4, 16, 32)
        y = deep(x)
        for block in blocks:
            y = checkpoint(lambda t, block=block: deep(block(deep(t))), y, use_reentrant=reentrant)
        deep(y).sum().backward()
        written[f"x.{reentrant}"] = x.grad
        written |= {f"{name}.{reentrant}": p.grad for name, p in blocks.named_parameters()}
    return written


@workload
def checkpointed_nested():
    x = leaf(16, 32)

    def inner(t):
        return deep(t)

    def outer(t):
        return deep(checkpoint(inner, deep(t), use_reentrant=False))

    y = checkpoint(outer, deep(x), use_reentrant=False)
    deep(y).sum().backward()
    return {"grad": x.grad}


@workload
def checkpointed_sequential():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(24, 24), nn.ReLU()) for _ in range(6)], nn.Linear(24, 10))
    x = leaf(12, 24)
    return train(
        model, [x], cross_entropy(), optimizer=torch.optim.Adam(model.parameters())
    ) | gradients(checkpoint_sequential(model, 3, deep(x), use_reentrant=False), x)


@workload
def transforms_of_functions():
    """torch.func over networks, and autograd.functional."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x, target = torch.randn(10, 8), torch.randn(10, 3)

    def loss(p, x, target):
        return (torch.func.functional_call(model, p, (x,)) - target).square().mean()

    written = {}
    for name, grad in torch.func.grad(loss)(parameters, x, target).items():
        written[f"grad.{name}"] = grad
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, target)
    for name, grad in per_sample.items():
        written[f"per_sample.{name}"] = grad
    written["jvp0"], written["jvp1"] = torch.func.jvp(deep, (x,), (torch.ones_like(x),))
    written["vjp"] = torch.func.vjp(deep, x)[1](torch.ones_like(x))[0]
    written["jacrev"] = torch.func.jacrev(lambda t: deep(t).sum(0))(x)
    written["hessian"] = torch.func.hessian(lambda t: deep(t).sum())(x[0])
    written["functional_hessian"] = torch.autograd.functional.hessian(lambda t: deep(t).prod(), x[0])
    # Through a transform and autograd at once.
    y = leaf(10, 8)
    torch.func.vmap(deep)(deep(y)).sum().backward()
    written["through_vmap"] = y.grad
    return written


@workload
def forward_mode():
    x, tangent = leaf(16, 16), torch.randn(16, 16)
    with forward_ad.dual_level():
        y = deep(forward_ad.make_dual(x, tangent))
        value, derivative = forward_ad.unpack_dual(y)
        (value.sum() + derivative.square().sum()).backward()
        return {"derivative": derivative.detach().clone(), "grad": x.grad}


class Scaled(torch.autograd.Function):
    """Saves an input, an output, and something that is neither."""

    @staticmethod
    def forward(ctx, x, factor):
        y = x.exp() * factor
        ctx.save_for_backward(x, y, x.sin() + 1)
        ctx.factor = factor
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y, other = ctx.saved_tensors
        again = ctx.saved_tensors
        assert all(torch.equal(a, b) for a, b in zip((x, y, other), again))
        return grad * y * other + x, None


class DoubledInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (doubled,) = ctx.saved_tensors
        return grad * 2 + 0 * doubled


class TwoOutputs(torch.autograd.Function):
    """One output is not differentiable, and an optional tensor is None."""

    @staticmethod
    def forward(ctx, x):
        order = x.argsort(dim=-1)
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order, None)
        return x.gather(-1, order), order

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, _):
        order, nothing = ctx.saved_tensors
        assert nothing is None
        return torch.zeros_like(grad).scatter(-1, order, grad)


@workload
def custom_functions():
    x = leaf(24, 24)
    y = Scaled.apply(deep(x), 3.0)
    y = DoubledInPlace.apply(deep(y))
    y, order = TwoOutputs.apply(deep(y))
    return gradients(deep(y), x) | {"order": order}


@workload
def functions_that_keep_no_owner():
    """A custom function's saved tensors, used by double backward."""
    x = leaf(16, 16)
    y = Scaled.apply(deep(x), 2.0)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    grad.square().sum().backward()
    return {"grad": x.grad}


@workload
def saved_values_read_by_the_program():
    """The _saved_* attributes of nodes give the tensors back, any number of times."""
    x = leaf(32, 32)
    middle = x * 2
    value = middle.detach().clone()
    y = middle.exp()
    z = y.sin()
    sine_node, exp_node = z.grad_fn, y.grad_fn
    y_value = y.detach().clone()
    del middle, y
    chained = deep(z)
    assert torch.equal(exp_node._saved_result, y_value)
    assert torch.equal(sine_node._saved_self, y_value)
    assert torch.equal(sine_node._saved_self.detach().log(), y_value.log())
    chained.sum().backward()
    return {"grad": x.grad, "value": value}


@workload
def hooks_on_a_held_variable():
    """register_hooks on a saved tensor that was already taken: it must be handed over undamaged."""
    x = leaf(32, 32)
    y = (x * 2).sin()
    node = y.grad_fn
    z = deep(y)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.detach().clone())
        return len(packed) - 1

    def unpack(index):
        unpacked.append(index)
        return packed[index] + 0.5

    node._raw_saved_self.register_hooks(pack, unpack)
    z.sum().backward()
    return {"grad": x.grad, "packed": packed[0], "count": len(packed), "unpacked": len(unpacked)}


@workload
def threads():
    """Several threads, each with its own network, forward and backward at the same time."""
    results: dict[int, dict] = {}

    def work(number: int):
        generator = torch.Generator().manual_seed(number)
        w = torch.randn(64, 64, generator=generator).requires_grad_()
        x = torch.randn(48, 64, generator=generator)
        written = {}
        for step in range(10):
            w.grad = None
            loss = deep(F.relu(deep(x @ w)) @ w.t()).square().mean()
            loss.backward()
            written[f"{number}.{step}"] = w.grad.clone()
        results[number] = written

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {key: value for n in sorted(results) for key, value in results[n].items()}


@workload
def backward_in_another_thread():
    x = leaf(32, 32)
    outputs = [deep(x) for _ in range(4)]
    for output in outputs:
        worker = threading.Thread(target=lambda: output.sum().backward())
        worker.start()
        worker.join()
    outputs.clear()
    return {"grad": x.grad}


@workload
def one_graph_from_several_threads():
    x = leaf(32, 32)
    y = deep(x)
    found = [None] * 4

    def work(number: int):
        (found[number],) = torch.autograd.grad((y * (number + 1)).sum(), x, retain_graph=True)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {f"grad{n}": grad for n, grad in enumerate(found)}


class Failing(torch.autograd.Function):
    """The identity, until its backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError(f"backward stops at {tuple(ctx.saved_tensors[0].shape)}")


@workload
def exceptions_in_the_middle():
    """Forward and backward that stop halfway, and training that goes on afterwards."""
    model = ConvNet()
    x = torch.randn(4, 3, 32, 32)
    written = {}
    for attempt in range(3):
        try:
            y = model(x)
            raise KeyError("forward stops")
        except KeyError as error:
            written[f"forward{attempt}"] = str(error)
        try:
            deep(Failing.apply(model(x))).sum().backward()
        except ValueError as error:
            written[f"backward{attempt}"] = str(error)
    del y
    model.zero_grad()
    return written | train(model, [x], cross_entropy())


@workload
def graphs_never_walked():
    """Forwards whose graph is dropped at once, kept for a while, or walked partly."""
    x = leaf(64, 64)
    kept = [deep(x) for _ in range(5)]
    for _ in range(5):
        deep(x)
    (half,) = torch.autograd.grad(kept[0].sum(), x)
    kept.clear()
    return {"grad": half}


@workload
def reused_storages():
    """Views, detached copies and in-place results of storages that are saved more than once."""
    x = leaf(16, 64)
    y = (x * 2).exp()
    z = y.sin() + y.cos() * y.detach()
    w = F.relu_(z * 1.5)
    flat = w.flatten()
    return gradients(deep(flat.view(64, 16).t() * flat.view(16, 64).square()), x)
