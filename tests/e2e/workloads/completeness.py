# SPDX-License-Identifier: Apache-2.0
"""What else real programs put around training: accumulation, offloading, packed sequences, tensors that
are not dense or not plain, hooks of modules, observers, checkpoints of the program's state."""

import contextlib
import copy
import io
import pickle
import threading

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, rnn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from workloads.autograd import deep, leaf
from workloads.models import Block, ConvNet, Recurrent, bf16_autocast, cross_entropy, mean_square
from workloads.registry import workload
from workloads.training import gradients, train


def gradients_of(model) -> dict:
    return {f"grad.{name}": p.grad.clone() for name, p in model.named_parameters()}


@workload
def gradient_accumulation():
    """Micro-batches, a scaled loss, clipping, and two optimizers over disjoint parameters."""
    model = ConvNet()
    head = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    body = torch.optim.SGD([p for name, p in model.named_parameters() if not name.startswith("head")], lr=0.05)
    written = {}
    for step in range(3):
        for micro, x in enumerate(torch.randn(3, 4, 3, 32, 32)):
            loss = cross_entropy()(model(x)) / 3
            loss.backward()
            written[f"loss{step}.{micro}"] = loss.detach()
        written[f"norm{step}"] = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        body.step(), head.step()
        body.zero_grad(), head.zero_grad()
    return written | {f"final.{name}": value.clone() for name, value in model.state_dict().items()}


@workload
def losses_added_before_backward():
    """Several graphs alive at once, walked together."""
    model = Block(32, 2)
    losses = [mean_square(model(torch.randn(2, 16, 32))) for _ in range(4)]
    sum(losses).backward()
    return gradients_of(model)


@workload
def gradient_scaler():
    model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    for _ in range(3):
        optimizer.zero_grad()
        with bf16_autocast():
            loss = cross_entropy()(model(torch.randn(16, 24)))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return gradients_of(model) | {"scale": scaler.get_scale()}


@workload
def closures():
    """L-BFGS evaluates the model several times in one step."""
    model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 10))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)
    x, losses = torch.randn(12, 16), []

    def closure():
        optimizer.zero_grad()
        loss = cross_entropy()(model(x))
        loss.backward()
        losses.append(loss.detach())
        return loss

    for _ in range(2):
        optimizer.step(closure)
    return {"losses": torch.stack(losses)} | gradients_of(model)


@workload
def checkpointed_three_deep():
    """Both kinds nested in each other, with dropout, so that the recomputation must see the same numbers."""
    written = {}
    for outer in (True, False):
        for inner in (True, False):
            torch.manual_seed(3)
            blocks = nn.ModuleList([Block(32, 2) for _ in range(3)])

            def level(number, x):
                x = deep(blocks[number](x), 2)
                if number == 2:
                    return x
                return checkpoint(level, number + 1, x, use_reentrant=(outer, inner)[number])

            y = deep(leaf(2, 8, 32))
            deep(checkpoint(level, 0, y, use_reentrant=outer)).sum().backward()
            written |= {f"{outer}.{inner}.{name}": value for name, value in gradients_of(blocks).items()}
    return written


@workload
def checkpointed_selectively():
    def keep_matrix_products(context, operator, *arguments, **options):
        kept = operator in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    block = Block(32, 2, dropout=0)
    x = deep(leaf(2, 8, 32))
    y = checkpoint(
        block, x, use_reentrant=False,
        context_fn=lambda: create_selective_checkpoint_contexts(keep_matrix_products),
    )  # fmt: skip
    deep(y).sum().backward()
    return gradients_of(block)


@workload
def offload_contexts():
    """Saved on the CPU inside, by Cinch outside; and nested in, and around, a checkpoint."""
    model = nn.Sequential(nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 24))
    x = leaf(16, 24)
    y = deep(model(deep(x)))
    with torch.autograd.graph.save_on_cpu():
        y = deep(model(y))
        with torch.autograd.graph.save_on_cpu(pin_memory=False):
            y = model(y)
        y = checkpoint(lambda t: deep(model(t)), y, use_reentrant=False)

    def offloaded(t):
        with torch.autograd.graph.save_on_cpu():
            return deep(model(t))

    y = checkpoint(offloaded, y, use_reentrant=False)
    deep(y).sum().backward()
    return gradients_of(model) | {"x": x.grad}


@workload
def packed_sequences():
    lengths = torch.tensor([9, 7, 4, 2])
    written = {}
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        cells = kind(12, 20, num_layers=2, bidirectional=True, dropout=0.2)
        x = deep(leaf(9, 4, 12))
        packed = rnn.pack_padded_sequence(x, lengths)
        output, _ = cells(packed)
        padded, _ = rnn.pad_packed_sequence(output, total_length=10)
        deep(padded).sum().backward()
        written |= {f"{kind.__name__}.{name}": value for name, value in gradients_of(cells).items()}
    sequences = [leaf(n, 6) for n in (5, 3, 2)]
    padded = rnn.pad_sequence([deep(s) for s in sequences], batch_first=True)
    deep(padded).sum().backward()
    cell = nn.LSTMCell(12, 20)
    state = (torch.zeros(4, 20), torch.zeros(4, 20))
    for x in torch.randn(6, 4, 12):
        state = cell(x, state)
    state[0].sum().backward()
    return written | {f"padded{i}": s.grad for i, s in enumerate(sequences)} | gradients_of(cell)


@workload
def sparse_tensors():
    written = {}
    embedding = nn.Embedding(40, 16, sparse=True)
    optimizer = torch.optim.SparseAdam(list(embedding.parameters()))
    for _ in range(2):
        optimizer.zero_grad()
        deep(embedding(torch.arange(60).reshape(6, 10) % 40)).sum().backward()
        optimizer.step()
    written["embedding"] = embedding.weight.detach().clone()
    dense = leaf(24, 24)
    sparse = (torch.eye(24) * 2).to_sparse().requires_grad_()
    y = deep(torch.sparse.mm(sparse, deep(dense)))
    y.sum().backward()
    written |= {"mm.dense": dense.grad.clone(), "mm.sparse": sparse.grad.to_dense()}
    dense.grad = None
    masked = deep(dense) * (dense.detach() > 0)
    torch.sparse.sum(masked.to_sparse() * 2).backward()
    written["to_sparse"] = dense.grad.clone()
    dense.grad = None
    compressed = torch.eye(24).to_sparse_csr()
    deep(compressed @ deep(dense)).sum().backward()
    return written | {"csr": dense.grad}


@workload
def complex_tensors():
    class Rotated(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(12, 16, dtype=torch.complex64)
            self.second = nn.Linear(16, 12, dtype=torch.complex64)

        def forward(self, z):
            z = self.first(torch.fft.fft(z)).tanh()
            z = torch.fft.ifft(self.second(z * z.conj()))
            return torch.view_as_real(z).square().sum(dim=-1) + z.abs() + z.angle().cos()

    model = Rotated()
    z = torch.randn(8, 12, dtype=torch.complex64, requires_grad=True)
    written = gradients(model(z * (1 + 2j)), z, *model.parameters())
    return {name: torch.view_as_real(v.resolve_conj()) if v.is_complex() else v for name, v in written.items()}


class Named(torch.Tensor):
    """A subclass by __torch_function__ alone."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        return super().__torch_function__(function, types, arguments, options or {})


class Wrapping(torch.Tensor):
    """A subclass by __torch_dispatch__ that holds its data in another tensor."""

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(
            cls, data.shape, strides=data.stride(), dtype=data.dtype, requires_grad=data.requires_grad
        )

    def __init__(self, data):
        self.data_inside = data

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        inside = tree_map(lambda t: t.data_inside if isinstance(t, cls) else t, (arguments, options or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, function(*inside[0], **inside[1]))


@workload
def subclasses():
    x = torch.randn(32, 32).as_subclass(Named).requires_grad_()
    y = deep(x)
    assert type(y) is Named
    y.sum().backward()
    wrapped = Wrapping(torch.randn(32, 32)).requires_grad_()
    z = deep(wrapped)
    assert type(z) is Wrapping
    z.sum().backward()
    # A plain gradient through both kinds.
    plain = leaf(32, 32)
    deep(deep(plain).as_subclass(Named)).as_subclass(torch.Tensor).sum().backward()
    return {
        "named": x.grad.as_subclass(torch.Tensor),
        "wrapped": wrapped.grad.data_inside,
        "plain": plain.grad.as_subclass(torch.Tensor),
    }


@workload
def nested_tensors():
    parts = [leaf(n, 16) for n in (3, 5, 2)]
    linear = nn.Linear(16, 16)
    ragged = torch.nested.nested_tensor([p.detach() for p in parts], layout=torch.jagged, requires_grad=True)
    linear(ragged.sin()).values().square().sum().backward()
    together = torch.nested.as_nested_tensor([deep(p) for p in parts], layout=torch.jagged)
    F.gelu(linear(together)).values().sum().backward()
    return gradients_of(linear) | {f"part{i}": p.grad for i, p in enumerate(parts)}


class Watching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        # PyTorch itself detaches what any saved-tensor hooks give back: docs/design.md.
        if function is not torch.ops.aten.detach.default:
            self.calls.append(str(function))
        return function(*arguments, **(options or {}))


@workload
def dispatch_modes():
    """A mode sees the same operators as without Cinch, over forward and backward or over backward alone."""
    model = Block(32, 2)
    with Watching() as both:
        mean_square(model(torch.randn(2, 8, 32))).backward()
    loss = mean_square(model(torch.randn(2, 8, 32)))
    with Watching() as backward:
        loss.backward()
    return gradients_of(model) | {"both": " ".join(both.calls), "backward": " ".join(backward.calls)}


@workload
def hooks_on_modules():
    model = ConvNet()
    seen = {}

    def remember(kind, name):
        return lambda module, *values: seen.__setitem__(
            f"{kind}.{name}", next(v for v in values[-1] if v is not None).detach().clone()
        )

    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(lambda module, inputs, output: output * 1.01)
            module.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 0.01,))
            module.register_full_backward_hook(remember("backward", name))
            module.register_full_backward_pre_hook(remember("before_backward", name))
    stored = []
    model.head.register_forward_hook(lambda module, inputs, output: stored.append(inputs[0]))
    written = train(model, [torch.randn(4, 3, 32, 32)], cross_entropy(), steps=2)
    values = [value.detach() for value in stored]
    stored.clear()
    return written | seen | {f"stored{i}": value for i, value in enumerate(values)}


@workload
def hooks_over_several_tensors():
    x, y = leaf(16, 16), leaf(16, 16)
    a, b = deep(x), deep(y)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda grads: seen.extend(g.clone() for g in grads))
    (a @ b).sin().sum().backward()
    return {"x": x.grad, "y": y.grad, "seen0": seen[0], "seen1": seen[1]}


@workload
def parametrized_modules():
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(16, 32)), nn.ELU(),
        parametrizations.spectral_norm(nn.Linear(32, 32)), nn.Softplus(),
        parametrizations.orthogonal(nn.Linear(32, 10)),
    )  # fmt: skip
    return train(model, [torch.randn(8, 16)], cross_entropy())


@workload
def anomaly_mode():
    written = {}
    with torch.autograd.detect_anomaly(check_nan=True):
        written |= train(ConvNet(), [torch.randn(4, 3, 32, 32)], cross_entropy(), steps=2)
        x = leaf(16, 16)
        try:
            (deep(x).clamp(max=-5) + 5).sqrt().sum().backward()
            deep(x).mul(0).sqrt().sum().backward()
        except RuntimeError as error:
            written["message"] = str(error)
    return written


@workload
def profiler():
    """The same operators are recorded, with shapes, as without Cinch, and as often."""
    model = ConvNet()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profile:
        written = train(model, [torch.randn(4, 3, 32, 32)], cross_entropy(), steps=2)
    # Python's functions go by their addresses.
    operators = [event for event in profile.key_averages() if event.key.startswith(("aten::", "autograd::", "torch::"))]
    events = {f"count.{event.key}": event.count for event in operators}
    with torch.autograd.profiler.profile():
        deep(leaf(8, 8)).sum().backward()
    with torch.autograd.profiler.record_function("named"):
        deep(leaf(8, 8)).sum().backward()
    return written | events


@workload
def memory_formats_and_memory_sharing():
    """Parameters and inputs in shared memory, memory-mapped weights, and weights that share storage."""
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).share_memory()
    x = torch.randn(8, 16).share_memory_()
    written = train(model, [x], cross_entropy())
    flat = nn.Parameter(torch.randn(2 * 16 * 16))
    first, second = flat.view(2, 16, 16)
    ((x @ first).relu() @ second.t()).square().sum().backward()
    return written | {"flat": flat.grad}


@workload
def pickled_in_mid_training():
    """State goes through pickle between forward and backward, and the copy trains on like the original."""
    model = ConvNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(4, 3, 32, 32)
    cross_entropy()(model(x)).backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = cross_entropy()(model(x))
    content = pickle.dumps(model), pickle.dumps(optimizer.state_dict())
    buffer = io.BytesIO()
    torch.save({"model": model.state_dict(), "x": x}, buffer)
    copied = copy.deepcopy(model)
    loss.backward()
    optimizer.step()
    written = {f"original.{name}": value.clone() for name, value in model.state_dict().items()}
    restored = pickle.loads(content[0])
    second = torch.optim.Adam(restored.parameters(), lr=1e-3)
    second.load_state_dict(pickle.loads(content[1]))
    for kind, each in (("restored", restored), ("copied", copied)):
        each.zero_grad()
        torch.manual_seed(9)
        cross_entropy()(each(x)).backward()
        written |= {f"{kind}.{name}": value for name, value in gradients_of(each).items()}
    second.step()
    buffer.seek(0)
    restored.load_state_dict(torch.load(buffer)["model"])
    return written | {f"loaded.{name}": value.clone() for name, value in restored.state_dict().items()}


@workload
def data_parallel():
    """Without accelerators DataParallel is its module; its parts, replicas in threads, work all the same."""
    written = train(nn.DataParallel(ConvNet()), [torch.randn(4, 3, 32, 32)], cross_entropy())
    torch.manual_seed(4)
    model = ConvNet(dropout=0).eval()
    replicas = [copy.deepcopy(model) for _ in range(3)]
    inputs = torch.randn(6, 3, 32, 32).chunk(3)
    losses = [None] * 3

    def work(number):
        losses[number] = cross_entropy()(replicas[number](inputs[number]))
        losses[number].backward()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    losses.clear()
    for number, replica in enumerate(replicas):
        written |= {f"{number}.{name}": value for name, value in gradients_of(replica).items()}
    return written


@workload
def threads_walk_one_model_at_the_same_time():
    """Each thread builds and walks graphs over shared parameters, without writing them."""
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    results = [None] * 6

    def work(number):
        generator = torch.Generator().manual_seed(number)
        total = None
        for _ in range(8):
            x = torch.randn(16, 32, generator=generator)
            grads = torch.autograd.grad(cross_entropy()(model(deep(x.requires_grad_()))), list(model.parameters()))
            total = grads if total is None else [a + b for a, b in zip(total, grads)]
        results[number] = total

    workers = [threading.Thread(target=work, args=(n,)) for n in range(len(results))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {f"{n}.{i}": g for n, grads in enumerate(results) for i, g in enumerate(grads)}


@workload
def forward_here_and_backward_elsewhere():
    """Graphs are built in one thread, walked in a second, and dropped in a third."""
    model = Recurrent(nn.LSTM)
    loss = [cross_entropy()(model(torch.randn(6, 9, 12)))]

    def in_a_thread(function):
        worker = threading.Thread(target=function)
        worker.start()
        worker.join()

    in_a_thread(lambda: loss[0].backward(retain_graph=True))
    in_a_thread(loss.clear)
    return gradients_of(model)


@workload
def default_dtypes_and_devices():
    with contextlib.ExitStack() as stack:
        torch.set_default_dtype(torch.bfloat16)
        stack.callback(torch.set_default_dtype, torch.float32)
        stack.enter_context(torch.device("cpu"))
        model = nn.Sequential(nn.Linear(32, 32), nn.SELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
        written = train(model, [torch.randn(16, 32)], cross_entropy(4))
    with torch.device("meta"):
        model = nn.Linear(8, 8)
        model(torch.randn(4, 8)).sum().backward()
    return written | {"meta": str(model.weight.grad.device)}
