# SPDX-License-Identifier: Apache-2.0
"""Rows and other places that an index picks: messages along a graph's edges, experts' tokens, labelled samples."""

import torch
import torch.nn.functional as F
from torch import nn

from workloads.derived.models import STEPS, train
from workloads.registry import workload

NODES, EDGES, WIDTH = 40, 200, 32


def nodes():
    return torch.randn(NODES, WIDTH)


class Messages(nn.Module):
    """Along edges, each with a weight that the sum of its ends gives."""

    def __init__(self, pick):
        super().__init__()
        self.project, self.weight = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.pick = pick

    def forward(self, x):
        source, target = torch.randint(NODES, (2, EDGES))
        h = torch.tanh(self.project(x))
        weights = self.weight(self.pick(h, source) - self.pick(h, target)).sigmoid()
        return x + torch.zeros_like(h).index_add(0, target, weights * self.pick(h, source))


def messages(pick):
    return train(nn.Sequential(Messages(pick), Messages(pick)), nodes)


@workload
def messages_along_edges():
    return messages(lambda h, index: h.index_select(0, index))


@workload
def messages_by_indexing():
    return messages(lambda h, index: h[index])


@workload
def messages_in_bfloat16():
    with torch.autocast(torch.randn(1).device.type, torch.bfloat16):
        return messages(lambda h, index: h[index])


@workload
def messages_in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        return messages(lambda h, index: h[index])
    finally:
        torch.set_default_dtype(torch.float32)


class Attention(nn.Module):
    """Scores of edges and what they carry, of layers' outputs that nobody saves."""

    def __init__(self):
        super().__init__()
        self.project = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        source, target = torch.randint(NODES, (2, EDGES))
        query, key, value = [project(x) for project in self.project]
        scores = (query[target] * key[source]).sum(1, keepdim=True).sigmoid()
        return x + torch.zeros_like(x).index_add(0, target, scores * value.index_select(0, source))


@workload
def messages_of_what_nobody_saves():
    return train(nn.Sequential(Attention(), Attention()), nodes)


class Ends(nn.Module):
    """Both ends of each edge, and their difference, through one layer."""

    def __init__(self):
        super().__init__()
        self.project, self.message = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        source, target = torch.randint(NODES, (2, EDGES))
        h = self.project(x)
        message = self.message(torch.cat([h[target], h[source] - h[target]], 1))
        return x + torch.zeros_like(x).index_add(0, target, message)


@workload
def both_ends_of_what_nobody_saves():
    return train(nn.Sequential(Ends(), Ends()), nodes)


class Picked(nn.Module):
    """What `pick` takes of a gate's values goes through a layer."""

    def __init__(self, pick):
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.pick = pick

    def forward(self, x):
        return self.layer(self.pick(F.silu(self.norm(x))))


def picked(shape, pick, layers=2):
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), *[Picked(pick) for _ in range(layers)])
    return train(model, lambda: torch.randn(*shape, WIDTH))


@workload
def counted_from_the_end():
    return picked([24], lambda x: x[torch.randint(-24, 24, (24,))])


@workload
def in_two_dimensions():
    return picked([24], lambda x: x[torch.randint(-len(x), len(x), (5, 7))].flatten(0, 1))


@workload
def along_the_second_dimension():
    return picked([6, 8], lambda x: x[:, torch.randint(8, (11,))][:, :8])


@workload
def along_the_second_dimension_selected():
    return picked([6, 8], lambda x: x.index_select(-2, torch.randint(8, (9,)))[:, :8])


@workload
def by_32_bits():
    return picked([24], lambda x: x.index_select(0, torch.randint(len(x), (24,), dtype=torch.int32)))


@workload
def every_other_place():
    return picked([24], lambda x: x[torch.randint(len(x), (48,))[::2]])


@workload
def by_masks():
    return picked([60], lambda x: x[torch.randperm(len(x)) < 0.8 * len(x)])


@workload
def by_masks_of_two_dimensions():
    mask = torch.arange(72).view(8, 9) % 5 != 1
    return picked([8, 9], lambda x: x[mask], layers=1)


@workload
def by_masks_behind_the_first_dimension():
    return picked([4, 16], lambda x: x[:, torch.arange(16) % 3 != 1], layers=1)


@workload
def repeated_rows():
    return picked([12], lambda x: x.repeat_interleave(torch.arange(len(x)) % 3, 0).repeat(2, 1)[:12])


class Experts(nn.Module):
    def __init__(self, count=3):
        super().__init__()
        expert = lambda: nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norm, self.gate = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, count)
        self.experts = nn.ModuleList(expert() for _ in range(count))

    def forward(self, x):
        flat = self.norm(x)
        share, chosen = self.gate(flat).softmax(-1).topk(2)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            token, place = (chosen == number).nonzero(as_tuple=True)
            out = out.index_add(0, token, expert(flat[token]) * share[token, place, None])
        return x + out


@workload
def experts_tokens():
    return train(nn.Sequential(Experts(), Experts()), lambda: torch.randn(64, WIDTH), steps=24)


def weight_gradient(change) -> dict:
    """Of a layer behind rows that were picked, where `change(index)` happens between forward and backward. Nothing in
    this backward reads the index, so plain PyTorch doesn't mind."""
    first, second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    values = {}
    for step in range(STEPS):
        index = torch.randint(NODES, (EDGES,))
        y = second(torch.tanh(first(torch.randn(NODES, WIDTH)))[index])
        change(index)
        y = y.sin().cos()  # more saves: what waits is settled
        values[f"{step}"] = torch.autograd.grad(y.sum(), second.weight)[0]
    return values


def gradient_of_changed_rows(before, after) -> dict:
    """Rows that nobody saves change `before` what was picked is saved, and `after` that."""
    first, second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    values = {}
    for step in range(STEPS):
        rows = first(torch.randn(NODES, WIDTH))
        picked = rows[torch.randint(NODES, (EDGES,))]
        with torch.no_grad():
            before(rows)
        y = second(picked)
        del picked
        with torch.no_grad():
            after(rows)
        y = y.sin().cos()
        values[f"{step}"] = torch.autograd.grad(y.sum(), second.weight)[0]
    return values


def nothing(rows):
    pass


@workload
def the_rows_change_before_what_is_picked_is_saved():
    return gradient_of_changed_rows(lambda rows: rows.mul_(3), nothing)


@workload
def the_rows_change_after_what_is_picked_is_saved():
    return gradient_of_changed_rows(nothing, lambda rows: rows.mul_(3))


@workload
def the_rows_change_behind_autograd():
    return gradient_of_changed_rows(nothing, lambda rows: rows.data.zero_())


@workload
def the_index_changes_in_place():
    return weight_gradient(lambda index: index.fill_(1 << 40))


@workload
def the_index_changes_behind_autograd():
    return weight_gradient(lambda index: index.data.fill_(-1))
