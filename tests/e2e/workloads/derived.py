# SPDX-License-Identifier: Apache-2.0
"""Programs whose saved tensors follow from others: outputs of norms and activations. What is derived must have the bits
that PyTorch computed, whatever the program does to sources, constants and graphs."""

import threading

import torch
import torch.nn.functional as F
from torch import nn

from workloads.registry import workload

STEPS = 5  # the first ones prove what the later ones derive


def train(model: nn.Module, batch, steps: int = STEPS, loss=lambda y: y.square().mean()) -> dict:
    """Gradients of every step, and the last parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    values = {}
    for step in range(steps):
        optimizer.zero_grad()
        loss(model(batch())).backward()
        for name, parameter in model.named_parameters():
            values[f"{step}.{name}"] = parameter.grad.clone()
        optimizer.step()
    return values


def images():
    return torch.randn(4, 3, 16, 16)


def channels_last_images():
    return images().contiguous(memory_format=torch.channels_last)


class Residual(nn.Module):
    def __init__(self, channels: int, inplace: bool):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.inplace = inplace

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), self.inplace)
        y = self.norm2(self.conv2(y))
        if self.inplace:
            y += x
        else:
            y = x + y
        return F.relu(y, self.inplace)


def resnet(inplace: bool) -> nn.Module:
    stem = [nn.Conv2d(3, 13, 3, padding=1), nn.BatchNorm2d(13), nn.ReLU(inplace)]
    return nn.Sequential(*stem, *[Residual(13, inplace) for _ in range(3)], nn.Conv2d(13, 2, 1))


@workload
def batch_norm_and_relu():
    return train(resnet(inplace=False), images)


@workload
def batch_norm_and_relu_in_place():
    return train(resnet(inplace=True), images)


@workload
def batch_norm_and_relu_channels_last():
    return train(resnet(inplace=True).to(memory_format=torch.channels_last), channels_last_images)


@workload
def batch_norm_in_evaluation():
    model = resnet(inplace=False)
    train(model, images, steps=1)
    return train(model.eval(), images)


@workload
def batch_norm_without_parameters():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, affine=False), nn.ReLU(), nn.Conv2d(8, 2, 1)]
    return train(nn.Sequential(*layers), images)


@workload
def batch_norm_with_a_frozen_bias():
    norm = nn.BatchNorm2d(8)
    norm.bias = nn.Parameter(torch.randn(8), requires_grad=False)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 2, 1))
    values = {}
    for step in range(STEPS):
        model.zero_grad()
        model(images()).square().sum().backward()
        values[f"{step}"] = model[0].weight.grad.clone()
    return values


@workload
def batch_norm_over_rows():
    layers = [nn.Linear(20, 33), nn.BatchNorm1d(33), nn.ReLU(), nn.Linear(33, 7)]
    return train(nn.Sequential(*layers), lambda: torch.randn(64, 20))


@workload
def group_norm_and_silu():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    return train(nn.Sequential(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)]), images)


@workload
def group_norm_and_silu_channels_last():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    model = nn.Sequential(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)])
    return train(model.to(memory_format=torch.channels_last), channels_last_images)


class Block(nn.Module):
    def __init__(self, width: int, activation=F.gelu, **norm):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, **norm), nn.LayerNorm(width, **norm)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.activation(self.up(self.norm2(x))))


def sequences():
    return torch.randn(3, 17, 24)


@workload
def transformer():
    return train(nn.Sequential(*[Block(24) for _ in range(3)], nn.LayerNorm(24), nn.Linear(24, 5)), sequences)


@workload
def transformer_without_biases():
    norm = {"bias": False}
    gelu = lambda x: F.gelu(x, approximate="tanh")
    return train(nn.Sequential(*[Block(24, gelu, **norm) for _ in range(3)], nn.Linear(24, 5)), sequences)


@workload
def transformer_with_plain_norms():
    norm = {"elementwise_affine": False}
    return train(nn.Sequential(*[Block(24, F.silu, **norm) for _ in range(2)], nn.Linear(24, 5)), sequences)


class Attention(nn.Module):
    """With separate projections, as BERT has it, and a mask."""

    def __init__(self, width: int):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        heads = lambda y: y.unflatten(-1, (2, -1)).transpose(1, 2)
        mask = torch.arange(x.shape[1]) < x.shape[1] - torch.arange(x.shape[0])[:, None]
        attended = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), mask[:, None, None], scale=0.3
        )
        return x + self.out(attended.transpose(1, 2).flatten(2))


@workload
def masked_attention():
    return train(nn.Sequential(*[Attention(24) for _ in range(3)], nn.Linear(24, 5)), sequences)


@workload
def attention_in_bfloat16():
    model = nn.Sequential(*[Block(24) for _ in range(2)], nn.Linear(24, 5)).bfloat16()
    return train(model, lambda: sequences().bfloat16())


@workload
def attention_read_by_two_backwards():
    model = nn.Sequential(*[Block(24) for _ in range(2)], nn.Linear(24, 5))
    parameters, values = list(model.parameters()), {}
    for step in range(STEPS):
        loss = model(sequences()).square().mean()
        for again in range(2):
            found = torch.autograd.grad(loss, parameters, retain_graph=not again)
            values |= {f"{step}.{again}.{i}": gradient for i, gradient in enumerate(found)}
    return values


@workload
def attention_reads_what_changes_later():
    """Only in some steps: backward raises there."""
    model, values = nn.ModuleList([nn.Linear(24, 24) for _ in range(2)]), {}
    for step in range(2 * STEPS):
        x = model[0](sequences()).view(3, 17, 2, 12).transpose(1, 2)
        loss = model[1](F.scaled_dot_product_attention(x, x, x).transpose(1, 2).flatten(2)).sum()
        if step % 3 == 2:
            with torch.no_grad():
                x.mul_(2)
        try:
            values[f"{step}"] = torch.autograd.grad(loss, model[0].weight)[0]
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error), error
            values[f"{step}"] = torch.zeros(1)
    return values


ACTIVATIONS = {
    "leaky_relu": lambda: nn.LeakyReLU(0.1),
    "leaky_relu_": lambda: nn.LeakyReLU(0.1, inplace=True),
    "elu": nn.ELU,
    "elu_": lambda: nn.ELU(inplace=True),
    "selu": nn.SELU,
    "hardswish": nn.Hardswish,
    "hardswish_": lambda: nn.Hardswish(inplace=True),
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.7),
    "relu6_": lambda: nn.ReLU6(inplace=True),
    "hardsigmoid": nn.Hardsigmoid,
    "mish": nn.Mish,
    "softplus": lambda: nn.Softplus(beta=2, threshold=1),
}


@workload
def other_activations():
    values = {}
    for name, activation in ACTIVATIONS.items():
        block = lambda: [nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6), activation()]
        model = nn.Sequential(nn.Conv2d(3, 6, 1), *block(), *block(), nn.Conv2d(6, 2, 1))
        for key, value in train(model, images, steps=4).items():
            values[f"{name}.{key}"] = value
    return values


class Autocast(nn.Module):
    def __init__(self, *layers, dtype=torch.bfloat16):
        super().__init__()
        self.inner, self.dtype = nn.Sequential(*layers), dtype

    def forward(self, x):
        with torch.autocast(torch.get_default_device().type, dtype=self.dtype):
            return self.inner(x).float()


@workload
def transformer_under_autocast():
    return train(Autocast(*[Block(24) for _ in range(3)], nn.LayerNorm(24), nn.Linear(24, 5)), sequences)


@workload
def transformer_under_autocast_to_float16():
    layers = [*[Block(24, F.silu) for _ in range(2)], nn.LayerNorm(24), nn.Linear(24, 5)]
    return train(Autocast(*layers, dtype=torch.float16), sequences)


@workload
def resnet_under_autocast():
    return train(Autocast(resnet(inplace=False)), images)


@workload
def group_norm_under_autocast():
    block = lambda: nn.Sequential(nn.GroupNorm(4, 12), nn.SiLU(), nn.Conv2d(12, 12, 3, padding=1))
    return train(Autocast(nn.Conv2d(3, 12, 1), *[block() for _ in range(3)]), images)


@workload
def max_pool_under_autocast():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3)]
    return train(Autocast(*layers), images)


class Gated(nn.Module):
    """RMS norm and SwiGLU, written by hand."""

    def __init__(self, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        wide = x.float()
        y = self.scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@workload
def bfloat16_parameters():
    model = nn.Sequential(nn.Linear(24, 24), *[Gated(24) for _ in range(3)], nn.Linear(24, 5)).bfloat16()
    return train(model, lambda: sequences().bfloat16(), loss=lambda y: y.float().square().mean())


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
def infinite_values():
    """What a mask alone would turn into zeros."""
    values = {}
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))
    for step in range(STEPS):
        x = images()
        if step == STEPS - 1:
            x[0, 0, 0, 0] = float("inf")
        model.zero_grad()
        model(x).sum().backward()
        for name, parameter in model.named_parameters():
            values[f"{step}.{name}"] = parameter.grad.clone()
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


class Downsampling(nn.Module):
    """Of a residual network: the sum of two norms, and a sum with what a max-pool made."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.block = Residual(8, inplace=False)
        self.conv = nn.Sequential(nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8))
        self.beside = nn.Sequential(nn.Conv2d(8, 8, 1, stride=2), nn.BatchNorm2d(8))
        self.last = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        x = self.block(F.max_pool2d(self.stem(x), 3, 2, 1))
        return self.last(F.relu(self.conv(x) + self.beside(x)))


@workload
def downsampling():
    return train(Downsampling(), images)


@workload
def downsampling_channels_last():
    return train(Downsampling().to(memory_format=torch.channels_last), channels_last_images)


@workload
def dropout():
    """By a product with noise on the CPU; the second run draws other noise."""
    layers = [nn.Linear(24, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 24), nn.LayerNorm(24), nn.Dropout(0.1)]
    return train(nn.Sequential(*layers, nn.Linear(24, 5)), sequences)


class EagerAttention(nn.Module):
    """Written by hand, as older programs have it."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = F.dropout((q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1), 0.2, self.training)
        return x + self.out(weights @ v)


@workload
def eager_attention():
    return train(nn.Sequential(EagerAttention(24), EagerAttention(24), nn.Linear(24, 5)), sequences)


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Gated(nn.Module):
    """A block as LLaMA has it, without its attention."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = RMSNorm(width)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@workload
def gated_blocks():
    return train(nn.Sequential(*[Gated(24) for _ in range(3)], RMSNorm(24), nn.Linear(24, 5)), sequences)


@workload
def gates_of_one_layer():
    """The gate, and what passes it, are halves of one layer's result, as GEGLU and SwiGLU have it."""

    class Gate(nn.Module):
        def __init__(self, activation):
            super().__init__()
            self.norm, self.inner, self.outer = nn.LayerNorm(24), nn.Linear(24, 96), nn.Linear(48, 24)
            self.activation = activation

        def forward(self, x):
            value, gate = self.inner(self.norm(x)).chunk(2, -1)
            return x + self.outer(value * self.activation(gate))

    return train(nn.Sequential(Gate(nn.functional.gelu), Gate(nn.functional.silu), nn.Linear(24, 5)), sequences)


def approximate_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


@workload
def gelu_by_hand():
    return train(nn.Sequential(*[Block(24, approximate_gelu) for _ in range(2)], nn.Linear(24, 5)), sequences)


@workload
def gelu_by_hand_under_autocast():
    return train(Autocast(*[Block(24, approximate_gelu) for _ in range(2)], nn.Linear(24, 5)), sequences)


@workload
def conversions_to_wider_types():
    """Only what a value was converted to is saved."""

    class Widens(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 48).bfloat16(), nn.Linear(48, 24).bfloat16()

        def forward(self, x):
            y = self.first(x.bfloat16())
            size = y.float().square().mean(-1, keepdim=True)
            return self.last(0.5 * y + 2).float() + size

    return train(nn.Sequential(Widens(), Widens()), sequences)


@workload
def patches_in_another_order():
    """Rows of a transposed map, which a norm makes contiguous."""

    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.places = nn.Conv2d(3, 24, 4, stride=4), nn.Parameter(torch.randn(16, 24))
            self.blocks = nn.Sequential(Block(24), Block(24))

        def forward(self, x):
            return self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places)

    return train(Patches(), images)


@workload
def quotients_and_differences():
    class Standardized(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(24, 32), nn.Linear(32, 5)

        def forward(self, x):
            x = self.first(x)
            centered = x - x.mean(-1, keepdim=True).exp()
            return self.last(centered / (centered.square().mean(-1, keepdim=True) + 1).sqrt())

    return train(Standardized(), sequences)


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
def instance_norm_and_leaky_relu():
    def block(inputs):
        return nn.Sequential(nn.Conv2d(inputs, 13, 3, padding=1), nn.InstanceNorm2d(13, affine=True), nn.LeakyReLU(0.1))

    return train(nn.Sequential(block(3), block(13), nn.InstanceNorm2d(13), nn.Conv2d(13, 2, 1)), images)


class Branches(nn.Module):
    """Both join in one tensor, which the next convolution saves."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.SiLU())
        self.right = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.last = nn.Sequential(nn.Conv2d(13, 13, 1), nn.GELU(), nn.Conv2d(13, 2, 1))

    def forward(self, x):
        return self.last(torch.cat([self.left(x), self.right(x)], 1))


@workload
def concatenation():
    return train(Branches(), images)


@workload
def concatenation_channels_last():
    return train(Branches().to(memory_format=torch.channels_last), channels_last_images)


@workload
def average_pooling():
    stem = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(3, 2, 1, True, False)]
    return train(nn.Sequential(*stem, nn.Conv2d(8, 4, 1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(4, 2, 1)), images)


class Transposed(nn.Module):
    """A layer over another dimension than the norm's: a copy of a view is saved."""

    def __init__(self):
        super().__init__()
        self.norm, self.over_time, self.last = nn.LayerNorm(24), nn.Linear(17, 17), nn.Linear(8, 24)

    def forward(self, x):
        x = x + self.over_time(self.norm(x).transpose(1, 2)).transpose(1, 2)
        first, *_ = self.norm(x).split(8, dim=2)
        third = self.norm(x)[:, 1::2].unflatten(2, (3, 8)).unbind(2)[2]
        return self.last(F.gelu(first).contiguous()).sum() + self.last(third.permute(1, 0, 2).contiguous()).sum()


@workload
def copies_of_views():
    return train(Transposed(), sequences, loss=lambda y: y)


@workload
def sums_with_numbers():
    class Gates(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.value = nn.Linear(24, 24), nn.Linear(24, 24)

        def forward(self, x):
            z, y = self.gate(x).sigmoid(), self.value(x)
            return (1 - z) * y.tanh() + (y.tanh() - 0.3) * z + (y.exp() + 1e-3) * z

    return train(Gates(), sequences)


@workload
def cached_keys():
    """What transformers' caches do in training: nothing, joined with keys and values."""

    class Attention(nn.Linear):
        def forward(self, x):
            query, key, value = super().forward(x).view(3, 17, 3, 2, 12).permute(2, 0, 3, 1, 4)
            key, value = (torch.cat([torch.tensor([]), each], dim=-2) for each in (key, value))
            y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            return y.transpose(1, 2).reshape(3, 17, 24)

    return train(nn.Sequential(Attention(24, 72), Attention(24, 72)), sequences)


@workload
def sums_in_place():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.value = nn.Linear(24, 24), nn.Linear(24, 24)

        def forward(self, x):
            z, y = self.gate(x).sigmoid(), self.value(x).relu()
            up, down = 2 * z, 3 * z
            up += 0.25
            down -= 1
            return up * y + down * y

    return train(Shifted(), sequences)


@workload
def another_number_in_each_step():
    linear, values = nn.Linear(24, 24), {}
    for step in range(2 * STEPS):
        y = linear(sequences()).tanh()
        loss = ((y + 0.1 * step) * (y - torch.rand(()).item())).sum()
        values[f"{step}"] = torch.autograd.grad(loss, linear.weight)[0]
    return values


@workload
def sentences_of_all_lengths():
    model, values = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 96), nn.GELU(), nn.Linear(96, 24)), {}
    for length in range(3, 60):
        loss = model(torch.randn(2, length, 24)).square().mean()
        values[f"{length}"] = torch.autograd.grad(loss, list(model.parameters())[0])[0]
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


@workload
def upsampling():
    def block(mode):
        return nn.Sequential(nn.GELU(), nn.Upsample(scale_factor=2, mode=mode), nn.Conv2d(8, 8, 3, padding=1))

    return train(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), block("nearest"), block("bilinear")), images)


@workload
def bounded_relu():
    def block(inputs):
        return nn.Sequential(nn.Conv2d(inputs, 13, 3, padding=1), nn.BatchNorm2d(13), nn.ReLU6())

    return train(nn.Sequential(block(3), block(13), nn.Conv2d(13, 2, 1)), images)


class Window(nn.Module):
    """Attention of windows that are shifted, without the attention."""

    def __init__(self, shift):
        super().__init__()
        self.shift, self.norm, self.linear = shift, nn.LayerNorm(12), nn.Linear(12, 12)

    def forward(self, x):
        y = F.pad(self.norm(x), (0, 0, 0, 0, 0, 0))
        y = torch.roll(y, (-self.shift, self.shift), (1, 2)) if self.shift else y
        y = y.view(4, 2, 4, 2, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(16, 16, 12)
        y = self.linear(y).view(4, 2, 2, 4, 4, 12).permute(0, 1, 3, 2, 4, 5).reshape(4, 8, 8, 12)
        return x + torch.roll(y, (self.shift, -self.shift), (1, 2))


@workload
def shifted_windows():
    patches = lambda: torch.randn(4, 8, 8, 12)
    return train(nn.Sequential(Window(0), Window(3), Window(9), nn.Linear(12, 5)), patches)


def train_on_derivatives(activation: type[nn.Module], dtype: torch.dtype) -> dict:
    """A network whose loss has its first and second derivatives."""
    model = nn.Sequential(nn.Linear(3, 40), activation(), nn.Linear(40, 40), activation(), nn.Linear(40, 1)).to(dtype)

    def loss(x):
        (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        return first.square().mean() + second.square().mean()

    values = {}
    for step in range(STEPS):
        model.zero_grad()
        loss(torch.rand(50, 3, dtype=dtype, requires_grad=True)).backward()
        values |= {f"{step}.{name}": each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    return values


@workload
def derivatives_of_tanh():
    return train_on_derivatives(nn.Tanh, torch.float32)


@workload
def derivatives_of_sigmoid():
    return train_on_derivatives(nn.Sigmoid, torch.float32)


@workload
def derivatives_in_float64():
    return train_on_derivatives(nn.Tanh, torch.float64)


@workload
def norms_in_float64():
    """Kernels of PyTorch's compute in float64, those of ours do not."""
    layers = [nn.Linear(24, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 5)]
    return train(nn.Sequential(*layers).double(), lambda: torch.randn(51, 24, dtype=torch.float64))


class Sine(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.sin(3 * self.linear(x))


@workload
def sines():
    """What the next layer saves is the sine of what the sine saved. MKL's last bit depends on its threads."""
    return train(nn.Sequential(Sine(8, 64), Sine(64, 64), Sine(64, 64), nn.Linear(64, 5)), lambda: torch.rand(40, 8))


@workload
def bells():
    """exp(-x²) of a distance that is saved: a kernel of Gaussian processes."""

    class Kernel(nn.Linear):
        def forward(self, x):
            points = super().forward(x)
            return torch.exp(-0.5 * torch.cdist(points, points + 1).square())

    return train(nn.Sequential(Kernel(6, 6), nn.Linear(48, 1)), lambda: torch.rand(48, 6))
