# SPDX-License-Identifier: Apache-2.0
"""Programs that resize, tag and peek: they change the memory of a tensor after autograd saved it, behind autograd's
back, save objects of their own, and read what was saved for operators of PyTorch's."""

import os
import signal
import sys

import torch
import torch.nn.functional as F
from torch import nn

import live
from workloads.errors import message_of
from workloads.registry import workload


def intermediate(*shape):
    """A leaf, and a tensor computed from it that PyTorch allocated."""
    leaf = torch.linspace(-2, 2, shape[0] * shape[1]).view(shape).requires_grad_()
    return leaf, leaf * 2


def others(x, depth: int = 6):
    """Saves more, so that Cinch encodes what is its own by then."""
    for _ in range(depth):
        x = x.sin() * 1.5
    return x


@workload
def emptied_and_dropped():
    """Nobody ever reads it: only the saving of others must not."""
    for shape in [(64, 64), (512, 512)]:
        leaf, x = intermediate(*shape)
        y = x.sin()
        x.untyped_storage().resize_(0)
        del x
        others(leaf.clone()).sum().backward()
        del y
    return {"grad": leaf.grad}


@workload
def emptied_and_filled_again():
    """As FSDP and activation offloading do it around backward."""
    leaf, x = intermediate(64, 64)
    y = x.sin()
    storage, values, size = x.untyped_storage(), x.detach().clone(), x.untyped_storage().nbytes()
    storage.resize_(0)
    del x
    z = others(y)
    storage.resize_(size)
    storage.copy_(values.untyped_storage())
    z.sum().backward()
    return {"grad": leaf.grad}


@workload
def filled_with_other_values():
    leaf, x = intermediate(64, 64)
    y = x.sin()
    storage, size = x.untyped_storage(), x.untyped_storage().nbytes()
    storage.resize_(0)
    storage.resize_(size)
    storage.fill_(0)
    del storage, x
    others(y).sum().backward()
    return {"grad": leaf.grad}


@workload
def emptied_while_it_is_saved():
    """The tensor is larger than its storage when autograd saves it."""

    class Emptying(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = x * x
            x.untyped_storage().resize_(8)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    leaf, x = intermediate(64, 64)
    y = Emptying.apply(x)
    storage = x.untyped_storage()
    del x
    z = others(y)
    storage.resize_(64 * 64 * 4)
    storage.fill_(0)
    z.sum().backward()
    return {"grad": leaf.grad}


@workload
def grown_between_two_saves():
    written = {}
    for attempt in range(3):  # Cinch learns the operators from the first ones
        leaf = torch.ones(128, 64, requires_grad=True)
        small = torch.full((64, 64), 2.5) + 0
        first = small * leaf[:64]
        large = small.data
        large.resize_(128, 64)
        large[64:] = 3
        second = large * leaf
        del small, large
        others(first.sum() + second).sum().backward()
        written[str(attempt)] = leaf.grad
    return written


@workload
def grown_input_of_a_linear_layer():
    torch.manual_seed(1)
    layer = nn.Linear(64, 32)
    x = torch.randn(16, 64) + 0
    y = layer(x)
    x.resize_(32, 64)
    x[16:] = 0
    z = layer(x)
    written = {"message": message_of(lambda: others(y).sum().backward())}
    others(z).sum().backward()
    return written | {"weight": layer.weight.grad, "bias": layer.bias.grad}


@workload
def grown_after_the_save():
    written = {}
    for attempt in range(3):
        leaf, x = intermediate(64, 64)
        y = (x.exp() * leaf).sin()
        x.data.resize_(128, 128)
        del x
        others(y).sum().backward()
        written[str(attempt)] = leaf.grad
    return written


@workload
def other_data():
    """`x.data = ...` after the save: an input is read as it is now, an output as it was."""
    leaf, x = intermediate(64, 64)
    y = x.sin()
    x.data = torch.full((64, 64), 0.25)
    others(y).sum().backward()
    of_input = leaf.grad.clone()
    leaf, x = intermediate(64, 64)
    y = x.exp()
    z = others(y * 2)
    y.data = torch.empty(1)
    z.sum().backward()
    return {"input": of_input, "output": leaf.grad}


@workload
def other_data_of_the_same_kind():
    """The new storage may lie where the old one was, which Cinch encoded and freed."""
    written = {}
    for value in range(4):
        leaf, x = intermediate(64, 64)
        y = x.sin()
        x.data = torch.empty(0)
        z = others(y)
        x.data = torch.full((64, 64), float(value))
        z.sum().backward()
        written[str(value)] = leaf.grad
    return written


@workload
def other_storage():
    """set_() counts as an in-place change; on what `.data` gives it changes only that."""
    leaf, x = intermediate(64, 64)
    y = x.sin()
    with torch.no_grad():
        x.set_(torch.zeros(32, 32))
    refused = message_of(lambda: y.sum().backward())
    leaf, x = intermediate(64, 64)
    y = x.sin()
    x.data.set_(torch.zeros(64, 64))
    others(y).sum().backward()
    return {"message": refused, "grad": leaf.grad}


@workload
def outputs_freed_as_pipelines_do():
    """Megatron's deallocate_output_tensor: the memory goes, the graph stays, backward is given the gradient."""
    leaf, x = intermediate(64, 64)
    y = others(x)
    output = y + 1
    output.data = torch.empty(1)
    torch.autograd.Variable._execution_engine.run_backward(
        (output,), (torch.ones(64, 64),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
    return {"grad": leaf.grad}


@workload
def parameters_gathered_and_freed():
    """FSDP: full parameters exist only around forward and backward."""
    torch.manual_seed(2)
    shard = torch.randn(64, 64)
    weight = nn.Parameter(torch.empty(64, 64))
    storage, size = weight.untyped_storage(), weight.untyped_storage().nbytes()
    leaf, x = intermediate(64, 64)
    storage.resize_(0)
    outputs = x
    for _ in range(4):
        storage.resize_(size)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(weight):
            weight.copy_(shard)
        outputs = F.linear(outputs, weight).tanh()
        storage.resize_(0)
    storage.resize_(size)
    with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(weight):
        weight.copy_(shard)
    outputs.sum().backward()
    return {"grad": leaf.grad, "weight": weight.grad}


@workload
def swapped():
    leaf, x = intermediate(64, 64)
    y = x.exp()
    z = others(y * 2)
    torch.utils.swap_tensors(y, torch.zeros(4))
    z.sum().backward()
    return {"grad": leaf.grad, "y": y}


@workload
def moved_to_shared_memory():
    """The storage stays, its memory is another process's too from then on."""
    leaf, x = intermediate(64, 64)
    y = x.sin()
    z = others(y)
    x.detach().share_memory_()
    del x
    others(z).sum().backward()
    return {"grad": leaf.grad}


@workload
def copied_on_write():
    leaf, x = intermediate(64, 64)
    y = x.sin()
    lazy = torch._lazy_clone(x.detach())
    del x
    z = others(y)
    lazy.fill_(3)
    others(z).sum().backward()
    return {"grad": leaf.grad}


@workload
def written_through_what_was_unpacked():
    """The values that a node gives away are the ones that it reads later."""
    leaf, x = intermediate(64, 64)
    y = x.sin()
    node = y.grad_fn
    del x
    z = others(y)
    node._saved_self.data.fill_(0.5)
    z = others(z)
    z.sum().backward()
    return {"grad": leaf.grad}


class Squared(torch.autograd.Function):
    """Changes what it saved in backward, which a second backward finds changed."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x + 0)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        x.data.mul_(2)
        return grad * x


@workload
def written_in_backward():
    leaf, x = intermediate(64, 64)
    y = others(Squared.apply(x))
    y.sum().backward(retain_graph=True)
    first = leaf.grad.clone()
    y.sum().backward()
    return {"first": first, "both": leaf.grad}


class Tagged(torch.Tensor):
    """A class of the program's own, of which PyTorch's dispatcher knows nothing."""

    def factor(self):
        return 3.0


class Scaling(torch.autograd.Function):
    """Asks in backward what it was given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        factor = x.factor() if isinstance(x, Tagged) else getattr(x, "scale", 1.0)
        return grad * factor + x.detach().as_subclass(torch.Tensor)


@workload
def attributes_of_saved_tensors():
    leaf, x = intermediate(64, 64)
    x.scale = 2.0
    y = Scaling.apply(x)
    del x
    others(y).sum().backward()
    return {"grad": leaf.grad}


@workload
def classes_of_saved_tensors():
    leaf, x = intermediate(64, 64)
    y = Scaling.apply(x.as_subclass(Tagged)).as_subclass(torch.Tensor)
    del x
    others(y).sum().backward()
    return {"grad": leaf.grad}


@workload
def nothing_special_saved():
    """What is neither tagged nor of another class is taken."""
    leaf, x = intermediate(64, 64)
    before = live.taken()
    y = Scaling.apply(x)
    del x
    z = leaf * 1
    for _ in range(4):
        z = Scaling.apply(z)
    z = others(z + y)
    if before is not None:
        assert live.taken() >= before + 4
    z.sum().backward()
    return {"grad": leaf.grad}


def looking_at(attribute):
    """A look at what a node saved, through its attribute."""
    return lambda node: getattr(node, attribute).detach().clone()


def hooking(raw_attribute):
    """A look at it through hooks that the program registers."""

    def look(node):
        packed = []
        getattr(node, raw_attribute).register_hooks(
            lambda t: packed.append(t.detach().clone()), lambda _: packed[0]
        )
        return packed[0]

    return look


def run(operator, look):
    """What a program sees of what `operator` saved, once Cinch has encoded it, and the gradient."""
    leaf, x = intermediate(64, 64)
    z = operator((x * 1).view(1, 1, 64, 64))
    node = z.grad_fn
    del x
    z = others(-z)  # which saves nothing of z
    try:
        seen = look(node)
    except RuntimeError as error:
        seen = str(error)
    z.sum().backward()
    return seen, leaf.grad


def peeked(operator, look):
    """The first look may be refused, in words that help; what is seen later are values."""
    for _ in range(3):
        run(operator, lambda node: None)  # the operator is known by then
    first, grad = run(operator, look)
    second, again = run(operator, look)
    if isinstance(first, str):
        assert '"keep": true' in first and live.report() is not None, first
        first = second
    return {"first": first, "second": second, "grad": grad, "again": again}


@workload
def peeked_relu():
    return peeked(F.relu, looking_at("_saved_result"))


@workload
def peeked_leaky_relu():
    return peeked(F.leaky_relu, looking_at("_saved_self"))


@workload
def peeked_hardtanh():
    return peeked(F.hardtanh, looking_at("_saved_self"))


@workload
def peeked_avg_pool():
    return peeked(lambda x: F.avg_pool2d(x, 2), looking_at("_saved_self"))


@workload
def peeked_max_pool_by_hooks():
    return peeked(lambda x: F.max_pool2d(x, 2), hooking("_raw_saved_self"))


@workload
def peeked_hardsigmoid_by_hooks():
    return peeked(F.hardsigmoid, hooking("_raw_saved_self"))


class Interrupted(Exception):
    pass


class Noticing(dict):
    """A module's parameters. Has a signal sent to the process while Cinch looks at them."""

    seen = False

    def items(self):
        frame = sys._getframe(1)
        if frame.f_code.co_filename == "<cinch>" and not Noticing.seen:
            Noticing.seen = True
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().items()


@workload
def interrupted_while_modules_are_named():
    """What a signal's handler raises reaches the program, whatever runs at that moment."""
    layer = nn.Linear(64, 64)
    object.__getattribute__(layer, "__dict__")["_parameters"] = Noticing(layer._parameters)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def handler(*_):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, handler)
    reached = False
    try:
        for _ in range(3):
            others(layer(torch.ones(64, 64) * 2)).sum().backward()
            try:
                optimizer.step()
            except Interrupted:
                reached = True
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert reached == Noticing.seen == (live.report() is not None)
    return {}
