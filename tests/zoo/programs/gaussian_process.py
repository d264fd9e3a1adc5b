# SPDX-License-Identifier: Apache-2.0
"""Kernel learning in double precision: a Gaussian process on features of a network, by Cholesky factors."""

import torch
from data import digits, metric, say, seed
from torch import nn

seed()
torch.set_default_dtype(torch.float64)
images, labels = digits()
order = torch.randperm(len(images))
x, y = images.double().flatten(1)[order], (labels[order] % 2).double() * 2 - 1
features = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
scale, noise = nn.Parameter(torch.zeros(())), nn.Parameter(torch.tensor(-1.0))
optimizer = torch.optim.Adam([*features.parameters(), scale, noise], lr=1e-2)


def kernel(a, b):
    return scale.exp() * torch.exp(-0.5 * torch.cdist(features(a), features(b)).square())


for step in range(20):
    some = torch.randint(1400, (300,))
    covariance = kernel(x[some], x[some]) + noise.exp() * torch.eye(300)
    factor = torch.linalg.cholesky(covariance)
    solved = torch.cholesky_solve(y[some, None], factor)
    loss = (0.5 * y[some, None].T @ solved).sum() + factor.diagonal().log().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    covariance = kernel(x[:600], x[:600]) + noise.exp() * torch.eye(600)
    guess = kernel(x[1400:], x[:600]) @ torch.linalg.solve(covariance, y[:600])
    metric("accuracy", (guess.sign() == y[1400:]).double().mean())
