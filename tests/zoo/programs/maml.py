# SPDX-License-Identifier: Apache-2.0
"""Model-agnostic meta-learning by torch.func: vmap over tasks of grad of adapted parameters."""

import torch
from data import metric, say, seed
from torch import nn
from torch.func import functional_call, grad, vmap

seed()
model = nn.Sequential(nn.Linear(1, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
parameters = dict(model.named_parameters())
optimizer = torch.optim.Adam(parameters.values(), lr=1e-2)


def loss_of(parameters, x, y):
    return (functional_call(model, parameters, (x,)) - y).square().mean()


def adapted_loss(parameters, x, y, x_new, y_new):
    slopes = grad(loss_of)(parameters, x, y)
    adapted = {name: p - 0.05 * slopes[name] for name, p in parameters.items()}
    return loss_of(adapted, x_new, y_new)


def tasks(count):
    height, phase = 1 + 4 * torch.rand(count, 1, 1), 3 * torch.rand(count, 1, 1)
    x = 10 * torch.rand(2, count, 20, 1) - 5
    y = height * torch.sin(x + phase)
    return x[0], y[0], x[1], y[1]


over_tasks = vmap(adapted_loss, in_dims=(None, 0, 0, 0, 0))
for step in range(40):
    loss = over_tasks(parameters, *tasks(32)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        say(step, loss)
torch.manual_seed(1)
metric("loss", over_tasks(parameters, *tasks(256)).mean())
