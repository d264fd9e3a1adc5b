# SPDX-License-Identifier: Apache-2.0
"""torch.compile with its default backend, compiled autograd, and TorchScript."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads.autograd import deep
from workloads.models import Block, ConvNet, bf16_autocast, cross_entropy, mean_square
from workloads.registry import workload
from workloads.training import gradients, train


def mlp():
    return nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 10))


@workload
def inductor_mlp():
    return train(torch.compile(mlp()), [torch.randn(16, 24)], cross_entropy())


@workload
def inductor_transformer_with_dropout():
    return train(torch.compile(Block()), [torch.randn(4, 16, 64)], mean_square)


@workload
def inductor_convolutional_bf16_autocast():
    model = torch.compile(ConvNet(dropout=0))
    return train(model, [torch.randn(4, 3, 32, 32)], cross_entropy(), context=bf16_autocast)


@workload
def inductor_dynamic_shapes():
    compiled = torch.compile(mlp(), dynamic=True)
    written = {}
    for batch in (5, 9, 12):
        for name, value in train(compiled, [torch.randn(batch, 24)], cross_entropy(), steps=1).items():
            written[f"{batch}.{name}"] = value
    return written


class Broken(nn.Module):
    """A graph break between two compiled regions, with an eager operator in between."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 48), nn.Linear(48, 10)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        torch._dynamo.graph_break()
        return self.second(F.silu(x))


@workload
def inductor_with_a_graph_break():
    return train(torch.compile(Broken()), [torch.randn(16, 24)], cross_entropy())


@workload
def inductor_graph_walked_twice():
    model = torch.compile(mlp())
    x = torch.randn(16, 24, requires_grad=True)
    # Otherwise it reuses what was saved as scratch memory, and refuses to keep the graph.
    with torch._functorch.config.patch(donated_buffer=False):
        loss = mean_square(deep(model(x)))
        (first,) = torch.autograd.grad(loss, x, retain_graph=True)
        loss.backward()
    return {"first": first, "second": x.grad} | {name: p.grad for name, p in model.named_parameters()}


@workload
def inductor_checkpointed():
    model = mlp()

    @torch.compile
    def forward(x):
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    x = torch.randn(16, 24, requires_grad=True)
    return gradients(deep(forward(deep(x))), x, *model.parameters())


def trained_with_compiled_autograd(model, x, loss_of, compiler) -> dict:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    written = {}
    for step in range(3):
        optimizer.zero_grad()
        loss = loss_of(model(x))
        with torch._dynamo.compiled_autograd._enable(compiler):
            loss.backward()
        optimizer.step()
        written[f"loss{step}"] = loss.detach()
    return written | {f"final.{name}": value.clone() for name, value in model.state_dict().items()}


@workload
def compiled_autograd_of_an_eager_forward():
    compiler = torch.compile(backend="aot_eager")
    return trained_with_compiled_autograd(ConvNet(dropout=0), torch.randn(4, 3, 32, 32), cross_entropy(), compiler)


@workload
def compiled_autograd_of_a_compiled_forward():
    return trained_with_compiled_autograd(
        torch.compile(mlp()), torch.randn(16, 24), cross_entropy(), torch.compile(backend="inductor")
    )


class Scripted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(24, 48), nn.Linear(48, 10)

    def forward(self, x: torch.Tensor, rounds: int = 2) -> torch.Tensor:
        x = torch.relu(self.first(x))
        for _ in range(rounds):
            x = torch.sigmoid(x) * x.exp()
        return self.second(x)


@workload
def script():
    """More steps than its profiling executor needs before it optimizes and differentiates by itself."""
    return train(torch.jit.script(Scripted()), [torch.randn(16, 24)], cross_entropy(), steps=6)


@workload
def trace():
    model = torch.jit.trace(mlp(), torch.randn(16, 24))
    return train(model, [torch.randn(16, 24)], cross_entropy(), steps=6)


@workload
def frozen_for_inference_beside_training():
    model = mlp()
    frozen = torch.jit.freeze(torch.jit.script(mlp().eval()))
    written = train(model, [torch.randn(16, 24)], cross_entropy())
    return written | {"inferred": frozen(torch.randn(4, 24)).detach()}
