# SPDX-License-Identifier: Apache-2.0
"""Tensors of wrapper subclasses: Python classes that hold other tensors."""

import threading
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_map_only

from workloads.errors import message_of
from workloads.models import mean_square
from workloads.registry import workload


class Wrapped(torch.Tensor):
    """Holds a tensor, and computes with it."""

    @staticmethod
    def __new__(cls, inner, label=""):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, label=""):
        self.inner, self.label = inner, label

    def __tensor_flatten__(self):
        return ["inner"], {"label": self.label}

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["inner"], context["label"])

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        labels = [""]

        def unwrap(tensor):
            labels.append(tensor.label)
            return tensor.inner

        result = function(*tree_map_only(Wrapped, unwrap, arguments), **tree_map_only(Wrapped, unwrap, named or {}))
        return tree_map_only(torch.Tensor, lambda inner: cls(inner, max(labels)), result)


class Noted(Wrapped):
    """Says which of its contexts are alive."""

    contexts = weakref.WeakSet()

    def __tensor_flatten__(self):
        context = Context()
        self.contexts.add(context)
        return ["inner"], context

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["inner"])


class Context:
    pass


class Opaque(Wrapped):
    """Can't be taken apart."""

    __tensor_flatten__ = None


class Failing(Wrapped):
    def __tensor_flatten__(self):
        raise ValueError("not today")


class Forgetful(Wrapped):
    """Comes back as something else."""

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["inner"].double(), context["label"])


class Fickle(Wrapped):
    """Can be taken apart, but for those with a label."""

    def __tensor_flatten__(self):
        if self.label:
            raise ValueError("not this one")
        return super().__tensor_flatten__()


def inputs(count=1, size=64):
    generator = torch.Generator().manual_seed(50)
    return [torch.randn(size, size, generator=generator) for _ in range(count)]


def chain(x, w):
    return F.gelu(((x @ w).tanh() * x).relu() @ w).softmax(-1)


def plain(tensor):
    return tensor.inner.clone() if isinstance(tensor, Wrapped) else tensor.clone()


def gradients_of(kind, *rest):
    x, w = (kind(each, *rest).requires_grad_() for each in inputs(2))
    y = chain(x, w)
    y.pow(2).sum().backward()
    return {"y": plain(y.detach()), "x": plain(x.grad), "w": plain(w.grad)}


@workload
def a_wrapper():
    return gradients_of(Wrapped, "labelled")


@workload
def a_wrapper_of_a_wrapper():
    x, w = (Wrapped(TwoTensor(each, -each)).requires_grad_() for each in inputs(2))
    y = chain(x, w)
    y.pow(2).sum().backward()
    parts = {"y": y.detach().inner, "x": x.grad.inner, "w": w.grad.inner}
    return {name + side: getattr(part, side).clone() for name, part in parts.items() for side in ("a", "b")}


@workload
def two_tensors():
    """One may be derived, when it was made from a computed value; none is of another layout."""
    x, w = inputs(2)
    x, w = TwoTensor(x, x.flip(0)).requires_grad_(), TwoTensor(w, 2 * w).requires_grad_()
    y = chain(x, w)
    y.pow(2).sum().backward()
    return {"a": x.grad.a, "b": x.grad.b, "w": w.grad.b, "y": y.detach().a.clone()}


@workload
def wrappers_of_other_memory():
    """Views, strides, and one storage in two wrappers."""
    (x,) = inputs(1, 96)
    base = (x * 2).requires_grad_(False)
    upper, lower = Wrapped(base[:48].t()).requires_grad_(), Wrapped(base[48:].t()).requires_grad_()
    y = (upper.exp() * lower.exp()).tanh()
    del base
    y.sum().backward()
    return {"upper": plain(upper.grad), "lower": plain(lower.grad)}


@workload
def jagged_training():
    """A Transformer's feed-forward block over sequences of different lengths, twice."""
    torch.manual_seed(51)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(52)
    written = {}
    for step in range(3):
        lengths = [40 + step, 7, 95 - step]
        rows = [torch.randn(n, 64, generator=generator) for n in lengths]
        batch = torch.nested.nested_tensor(rows, layout=torch.jagged)
        y = model(model(batch) + batch)
        loss = mean_square(y.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        written[f"loss{step}"] = loss.detach().clone()
    return written | {name: value.clone() for name, value in model.state_dict().items()}


@workload
def classes_that_do_not_come_back():
    return {
        f"{kind.__name__}.{name}": value
        for kind in (Opaque, Failing, Forgetful)
        for name, value in gradients_of(kind).items()
    }


@workload
def one_of_a_class_that_does_not_come_back():
    first, second = gradients_of(Fickle), gradients_of(Fickle, "labelled")
    return {"first": first["w"], "second": second["w"]}


@workload
def a_gradient_of_a_gradient():
    x, w = (Wrapped(each / 8).requires_grad_() for each in inputs(2))
    y = (x @ w).tanh()
    (first,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
    first.pow(2).sum().backward()
    return {"first": plain(first.detach()), "x": plain(x.grad), "w": plain(w.grad)}


@workload
def a_graph_read_twice():
    x, w = (Wrapped(each).requires_grad_() for each in inputs(2))
    y = chain(x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    return {"x": plain(x.grad), "w": plain(w.grad)}


@workload
def saved_wrappers_that_the_program_reads():
    x, _ = (Wrapped(each, "labelled").requires_grad_() for each in inputs(2))
    y = (x * 2).exp()
    node = y.grad_fn
    rest = chain(y, y)
    del y
    saved = node._saved_result
    del node, rest
    return {"class": type(saved).__name__, "label": saved.label, "values": plain(saved.detach())}


@workload
def hooks_on_one_saved_wrapper():
    x, _ = (Wrapped(each).requires_grad_() for each in inputs(2))
    y = (x * 2).exp()
    packed = []

    def pack(tensor):
        packed.append(type(tensor).__name__)
        return tensor.detach()

    y.grad_fn._raw_saved_result.register_hooks(pack, lambda tensor: tensor * 2)
    chain(y, y).sum().backward()
    return {"classes": " ".join(packed), "grad": plain(x.grad)}


@workload
def changed_in_place():
    (x,) = inputs()
    x = Wrapped(x).requires_grad_()
    of_output = (x * 2).exp()
    of_output.add_(1)
    y = x * 2
    of_input = y.sin()
    y.mul_(3)
    detached = x * 2
    of_detached = detached.sin()
    detached.detach_()
    return {
        "output": message_of(lambda: of_output.sum().backward()),
        "input": message_of(lambda: of_input.sum().backward()),
        "detached": message_of(lambda: of_detached.sum().backward()),
    }


@workload
def an_inner_tensor_changed():
    """PyTorch does not see it: backward reads what is there by then."""
    (x,) = inputs()
    leaf = Wrapped(x).requires_grad_()
    y = leaf * 2
    z = y.sin()
    y.inner.add_(1)
    del y
    chain(z, z).sum().backward()
    return {"grad": plain(leaf.grad)}


@workload
def in_many_threads():
    written = {}

    def work(number):
        written[f"thread{number}"] = gradients_of(Wrapped, str(number))["w"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return dict(sorted(written.items()))


@workload
def a_graph_freed_unread():
    x, w = (Wrapped(each).requires_grad_() for each in inputs(2))
    chain(x, w)
    return {"y": plain(chain(x, w).detach())}


@workload
def contexts_are_given_up():
    """Backward releases what it has read without the interpreter's lock."""
    gradients = gradients_of(Noted)
    gradients_of(Wrapped)
    return {"alive": len(Noted.contexts), **gradients}
