# SPDX-License-Identifier: Apache-2.0
# Run by wrapper_tensor.cpp inside the program. Takes wrapper subclasses of torch.Tensor apart, as distributed
# (DTensor) and jagged nested tensors, and puts them together, by their own __tensor_flatten__ and
# __tensor_unflatten__ (torch/utils/_python_dispatch.py, TensorWithFlatten), as torch.compile does.
import torch

# By class: whether a tensor that was taken apart came together again alike.
proved = {}


def take_apart(tensor):
    """Returns how to put `tensor` together, its plain tensors, their addresses, and whether each of its elements is an
    element of one of them; nothing for a class that can't be put together."""
    kind = type(tensor)
    if not proved.get(kind, hasattr(kind, "__tensor_flatten__")):
        return ()
    plain = []
    with torch._C.DisableTorchFunctionSubclass():
        if kind not in proved:
            proved[kind] = comes_back(tensor)
            return take_apart(tensor)
        plan = flatten(tensor, plain)
        return plan, plain, [each._cdata for each in plain], is_elementwise(tensor)


def put_together(plan, plain):
    with torch._C.DisableTorchFunctionSubclass():
        tensor = unflatten(plan, iter(plain))
    return tensor, tensor._cdata


def flatten(tensor, plain):
    """Appends what `tensor` wraps to `plain`. Returns what unflatten needs besides; None for a plain tensor."""
    if hasattr(type(tensor), "trigger_wait"):
        # A collective's result. Who saves it is about to read it, and waits then, too.
        tensor = tensor.trigger_wait()
    if type(tensor) is torch.Tensor:
        if tensor.grad_fn is not None:
            raise TypeError("autograd goes on within the wrapper")
        plain.append(tensor)
        return None
    names, context = tensor.__tensor_flatten__()
    wrapped = {name: getattr(tensor, name) for name in names}
    # DTensor's mesh is among what it wraps since torch 2.15 at the latest.
    objects = {name: each for name, each in wrapped.items() if not isinstance(each, torch.Tensor)}
    parts = [(name, flatten(each, plain)) for name, each in wrapped.items() if name not in objects]
    return type(tensor), context, tensor.size(), tensor.stride(), parts, objects


def unflatten(plan, plain):
    if plan is None:
        return next(plain)
    kind, context, size, stride, parts, objects = plan
    wrapped = {name: unflatten(part, plain) for name, part in parts}
    return kind.__tensor_unflatten__(wrapped | objects, context, size, stride)


def comes_back(tensor):
    plain, of_again = [], []
    try:
        again = unflatten(flatten(tensor, plain), iter(plain))
        flatten(again, of_again)
        if type(again) is not torch.Tensor and facts(tensor) != facts(again):
            return False
        return list(map(memory, plain)) == list(map(memory, of_again))
    except Exception:
        return False


def memory(plain):
    return plain.data_ptr(), plain.size(), plain.stride(), plain.dtype


def facts(tensor):
    return type(tensor), tensor.size(), tensor.stride(), tensor.dtype, tensor.device, tensor.layout


# Classes whose elements are those of the plain tensors in them.
ELEMENTWISE = (
    "torch.distributed.tensor.DTensor",
    "torch.distributed._functional_collectives.AsyncCollectiveTensor",
    "torch.nested._internal.nested_tensor.NestedTensor",
)


def is_elementwise(tensor):
    """Whether an error in a plain tensor is known to be one of the same size in the wrapper's elements. Partial sums
    may cancel, so that their errors are larger than the sum's."""
    kind = type(tensor)
    placements = getattr(tensor, "placements", ())
    return f"{kind.__module__}.{kind.__name__}" in ELEMENTWISE and not any(each.is_partial() for each in placements)
