# SPDX-License-Identifier: Apache-2.0
"""A network that solves the heat equation: derivatives of its output are in the loss. Double precision, L-BFGS."""

import torch
from data import metric, say, seed
from torch import nn

seed()
torch.set_default_dtype(torch.float64)
model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
inside = torch.rand(1500, 2)
edge = torch.rand(300, 2)
edge[:100, 1], edge[100:200, 0], edge[200:, 0] = 0, 0, 1
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, history_size=20, line_search_fn="strong_wolfe")


def exact(p):
    return torch.exp(-0.1 * torch.pi**2 * p[:, 1:]) * torch.sin(torch.pi * p[:, :1])


def loss_of():
    p = inside.clone().requires_grad_()
    u = model(p)
    (first,) = torch.autograd.grad(u.sum(), p, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), p, create_graph=True)
    residual = first[:, 1] - 0.1 * second[:, 0]
    return residual.square().mean() + 10 * (model(edge) - exact(edge)).square().mean()


def closure():
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    return loss


for step in range(10):
    say(step, optimizer.step(closure))
with torch.no_grad():
    metric("error", (model(inside) - exact(inside)).abs().max())
