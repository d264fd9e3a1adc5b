# SPDX-License-Identifier: Apache-2.0
"""Programs that PyTorch refuses: the error must be PyTorch's own, word for word, and nothing may stay."""

import torch
from torch import nn

from workloads.registry import workload


def message_of(program, *arguments) -> str:
    try:
        program(*arguments)
    except (RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def tensors(*shape):
    """A leaf, and an intermediate that only autograd's graph and the caller hold."""
    torch.manual_seed(3)
    leaf = torch.randn(*shape, requires_grad=True)
    return leaf, leaf * 2


def in_every_size(program) -> dict:
    """Small and large, one- and four-dimensional."""
    return {
        str(shape): message_of(program, *tensors(*shape)) for shape in [(3,), (64, 64), (2, 8, 24, 24), (1 << 18,)]
    }


@workload
def saved_input_modified():
    def program(leaf, x):
        y = x.sin()
        x.add_(1)
        y.sum().backward()

    return in_every_size(program)


@workload
def saved_output_modified():
    def program(leaf, x):
        y = x.exp()
        y.mul_(2)
        y.sum().backward()

    return in_every_size(program)


@workload
def saved_output_modified_much_later():
    """Other tensors were saved and encoded in between."""

    def program(leaf, x):
        y = x.exp()
        z = y
        for _ in range(8):
            z = z.sin() * 1.5
        y.zero_()
        z.sum().backward()

    return in_every_size(program)


@workload
def base_modified_after_a_view_was_saved():
    def program(leaf, x):
        y = x.flatten()[1:].sin()
        x.add_(1)
        y.sum().backward()

    return in_every_size(program)


@workload
def view_modified_after_its_base_was_saved():
    def program(leaf, x):
        y = x.sin()
        x.view(-1)[:1].zero_()
        y.sum().backward()

    return in_every_size(program)


@workload
def relu_output_modified():
    def program(leaf, x):
        y = nn.functional.relu(x)
        z = y * 3
        y += 1
        z.sum().backward()

    return in_every_size(program)


@workload
def modified_without_grad():
    def program(leaf, x):
        y = x * x
        with torch.no_grad():
            x.clamp_(0)
        y.sum().backward()

    return in_every_size(program)


@workload
def parameter_modified():
    def program(leaf, x):
        y = x.sin() * leaf
        with torch.no_grad():
            leaf.add_(1)
        y.sum().backward()

    return in_every_size(program)


@workload
def modified_through_data():
    """PyTorch does not notice: the gradient is what the changed memory says, here as there."""
    leaf, x = tensors(64, 64)
    y = x.sin()
    x.data.zero_()
    y.sum().backward()
    return {"grad": leaf.grad}


@workload
def modified_and_gone():
    """Refused too, though the program no longer has what it modified."""

    def program(leaf, x):
        hidden = x.tanh()
        y = hidden.sin()
        hidden.mul_(2)
        del hidden
        y.sum().backward()

    return in_every_size(program)


@workload
def detached_in_place():
    """detach_() after saving: as the input of the node, as its output, and of a view's base."""

    def input_of_a_node(leaf, x):
        y = x.sin()
        x.detach_()
        y.sum().backward()

    def output_of_a_node(leaf, x):
        y = x.exp()
        z = y.sum()
        y.detach_()
        z.backward()

    def read_by_the_program(leaf, x):
        y = x.sin()
        x.detach_()
        assert y.grad_fn._saved_self is not None

    programs = (input_of_a_node, output_of_a_node, read_by_the_program)
    return {f"{p.__name__}{size}": text for p in programs for size, text in in_every_size(p).items()}


@workload
def detached_in_place_and_gone():
    """The tensor that was detached does not live until backward."""

    def program(leaf, x):
        y = x.sin()
        x.detach_()
        del x
        y.sum().backward()

    def taken_in_between(leaf, x):
        y = x.sin()
        x.detach_()
        del x
        for _ in range(8):
            y = y.sin() * 1.5
        y.sum().backward()

    programs = (program, taken_in_between)
    return {f"{p.__name__}{size}": text for p in programs for size, text in in_every_size(p).items()}


@workload
def second_walk():
    def backward_twice(leaf, x):
        y = x.sin().exp()
        y.sum().backward()
        y.sum().backward()

    def read_after_release(leaf, x):
        y = x.sin()
        y.sum().backward()
        y.grad_fn._saved_self  # noqa: B018

    def raw_read_after_release(leaf, x):
        y = x.sin()
        raw = y.grad_fn._raw_saved_self
        y.sum().backward()
        raw.register_hooks(lambda t: t, lambda t: t)

    programs = (backward_twice, read_after_release, raw_read_after_release)
    return {f"{p.__name__}{size}": text for p in programs for size, text in in_every_size(p).items()}


@workload
def hooks_refused():
    """register_hooks twice, with wrong arguments, with a pack hook that modifies, or that raises."""

    def twice(leaf, x):
        y = x.sin()
        raw = y.grad_fn._raw_saved_self
        raw.register_hooks(lambda t: t, lambda t: t)
        raw.register_hooks(lambda t: t, lambda t: t)

    def modifying(leaf, x):
        y = x.sin()
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.add_(1), lambda t: t)

    def raising(leaf, x):
        def pack(t):
            raise RuntimeError(f"pack refuses {tuple(t.shape)}")

        y = x.sin()
        y.grad_fn._raw_saved_self.register_hooks(pack, lambda t: t)

    def wrong_result(leaf, x):
        y = x.sin()
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: 1)
        y.sum().backward()

    programs = (twice, modifying, raising, wrong_result)
    return {f"{p.__name__}{size}": text for p in programs for size, text in in_every_size(p).items()}


@workload
def errors_and_then_training():
    """A refused backward halfway through a network leaves the process able to train."""
    torch.manual_seed(4)
    layers = [nn.Linear(32, 32), nn.Sigmoid()]
    for _ in range(4):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(32, 1))
    x = torch.randn(16, 32)
    outputs = []
    model[1].register_forward_hook(lambda module, inputs, output: outputs.append(output))

    def broken():
        loss = model(x).sum()
        output = outputs.pop()
        output.mul_(2)
        loss.backward()

    texts = {f"error{i}": message_of(broken) for i in range(3)}
    model.zero_grad()
    model(x).sum().backward()
    outputs.clear()
    return texts | {name: p.grad for name, p in model.named_parameters()}
