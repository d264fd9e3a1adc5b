# SPDX-License-Identifier: Apache-2.0
"""A Wasserstein GAN with gradient penalty: the critic's loss holds a gradient, which is differentiated again."""

import torch
from data import batches, digits, metric, say, seed
from torch import nn

seed()
images, labels = digits(size=16)
generator = nn.Sequential(
    nn.Linear(32, 1024), nn.Unflatten(1, (64, 4, 4)),
    nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh(),
)  # fmt: skip
critic = nn.Sequential(
    nn.Conv2d(1, 32, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 64, 3, 2, 1), nn.LeakyReLU(0.2),
    nn.Flatten(), nn.Linear(1024, 1),
)  # fmt: skip
of_generator = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.0, 0.9))
of_critic = torch.optim.Adam(critic.parameters(), lr=5e-4, betas=(0.0, 0.9))
distance = 0.0
for step, (x, _) in enumerate(batches(60, images, labels, 32)):
    fake = generator(torch.randn(len(x), 32))
    share = torch.rand(len(x), 1, 1, 1)
    between = (share * x + (1 - share) * fake.detach()).requires_grad_()
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (gradient.flatten(1).norm(dim=1) - 1).square().mean()
    gap = critic(x).mean() - critic(fake.detach()).mean()
    loss = 10 * penalty - gap
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    distance = 0.9 * distance + 0.1 * gap.item()
    if step % 3 == 2:
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()
    if step % 10 == 9:
        say(step, loss)
metric("distance", distance)
