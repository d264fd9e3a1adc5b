# SPDX-License-Identifier: Apache-2.0
"""Training in two processes that gloo connects: data parallel, sharded, tensor parallel."""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from workloads.autograd import deep
from workloads.models import Block, ConvNet, bf16_autocast, cross_entropy, mean_square
from workloads.process_group import rank
from workloads.registry import workload


def images():
    return torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(10 + rank()))


def sequences():
    return torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(20 + rank()))


def whole(tensor):
    """A plain tensor of all that the processes have of a DTensor."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def trained(model, batch, loss_of, steps: int = 3, context=contextlib.nullcontext) -> dict:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    written = {}
    for step in range(steps):
        optimizer.zero_grad()
        with context():
            loss = loss_of(model(batch))
        loss.backward()
        optimizer.step()
        written[f"loss{step}"] = whole(loss)
    for name, value in model.state_dict().items():
        written[f"final.{name}"] = whole(value)
    return written


@workload
def data_parallel_with_many_buckets():
    rank()
    return trained(DistributedDataParallel(ConvNet(), bucket_cap_mb=0.01), images(), cross_entropy())


@workload
def data_parallel_bf16_autocast():
    rank()
    model = DistributedDataParallel(nn.Sequential(Block(), Block()), bucket_cap_mb=0.1, gradient_as_bucket_view=True)
    return trained(model, sequences(), mean_square, context=bf16_autocast)


@workload
def data_parallel_static_graph_with_checkpoints():
    rank()

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    return trained(DistributedDataParallel(Checkpointed(), static_graph=True), sequences(), mean_square)


@workload
def data_parallel_without_synchronization():
    """Gradients are accumulated over micro-batches within no_sync(), and exchanged with the last one."""
    rank()
    model = DistributedDataParallel(ConvNet(), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batch = images()
    written = {}
    for step in range(3):
        optimizer.zero_grad()
        with model.no_sync():
            for micro in range(2):
                cross_entropy()(model(batch.roll(micro, dims=0))).backward()
        loss = cross_entropy()(model(batch))
        loss.backward()
        optimizer.step()
        written[f"loss{step}"] = loss.detach().clone()
    return written | {f"final.{name}": value.clone() for name, value in model.state_dict().items()}


@workload
def data_parallel_with_unused_parameters():
    class Choosing(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x):
            return self.head(deep(self.used(x)))

    rank()
    return trained(DistributedDataParallel(Choosing(), find_unused_parameters=True), sequences(), mean_square)


@workload
def data_parallel_with_a_communication_hook():
    rank()
    model = DistributedDataParallel(Block(), bucket_cap_mb=0.05)
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return trained(model, sequences(), mean_square)


@workload
def data_parallel_with_synchronized_statistics():
    """Collectives that autograd differentiates, between local operators."""
    rank()
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(rank())).requires_grad_()
    y = deep(x)
    parts = dist.nn.functional.all_gather(y)
    z = dist.nn.functional.all_reduce(deep(torch.cat(parts)).clone())
    deep(z).sum().backward()
    return {"grad": x.grad}


@workload
def sharded_1():
    """FullyShardedDataParallel, each block in a unit of its own."""
    rank()
    model = FullyShardedDataParallel(
        nn.Sequential(Block(dropout=0), Block(dropout=0)),
        auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.device("cpu"),
    )  # fmt: skip
    return trained(model, sequences(), mean_square)


@workload
def sharded_2():
    """fully_shard, resharding after forward, so that parameters are freed while their graph lives."""
    rank()
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(Block(dropout=0), Block(dropout=0))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return trained(model, sequences(), mean_square)


@workload
def tensor_parallel():
    rank()
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    batch = torch.randn(8, 64, generator=torch.Generator().manual_seed(30))
    return trained(model, batch, mean_square)


@workload
def sequence_parallel():
    """Norms that both processes have, each of half of the sequence, and collectives between them and linear layers."""
    rank()
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64))
    plan = {
        "0": SequenceParallel(use_local_output=False),
        "1": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
        "3": RowwiseParallel(input_layouts=Shard(-1), output_layouts=Shard(1), use_local_output=False),
        "4": SequenceParallel(),
    }
    parallelize_module(model, mesh, plan)
    return trained(model, torch.randn(2, 16, 64, generator=torch.Generator().manual_seed(31)), mean_square)


@workload
def partial_sums():
    """What a product leaves in each process is a part of each sum, which backward reads as a whole."""
    rank()
    mesh = init_device_mesh("cpu", (2,))
    generator = torch.Generator().manual_seed(41)
    x = distribute_tensor(torch.randn(32, 64, generator=generator), mesh, [Shard(1)]).requires_grad_()
    w = distribute_tensor(torch.randn(64, 32, generator=generator), mesh, [Shard(0)]).requires_grad_()
    y = x @ w
    z = (y * y).sum() + deep(y).sum()
    del y
    z.backward()
    return {"x": whole(x.grad), "w": whole(w.grad)}


@workload
def distributed_tensors():
    rank()
    mesh = init_device_mesh("cpu", (2,))
    generator = torch.Generator().manual_seed(40)
    x = distribute_tensor(torch.randn(32, 32, generator=generator), mesh, [Shard(0)]).requires_grad_()
    w = distribute_tensor(torch.randn(32, 32, generator=generator), mesh, [Replicate()]).requires_grad_()
    y = deep(F.gelu(deep(x) @ w))
    y.sum().backward()
    return {"x": whole(x.grad), "w": whole(w.grad)}
