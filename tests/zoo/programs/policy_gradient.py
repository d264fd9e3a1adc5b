# SPDX-License-Identifier: Apache-2.0
"""REINFORCE on a pole that is balanced: an actor and a critic, many small tensors."""

import torch
from data import metric, say, seed
from torch import nn

seed()
actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)


def move(state, action):
    x, v, angle, turn = state.unbind(1)
    force = 20.0 * action - 10.0
    cos, sin = angle.cos(), angle.sin()
    push = (force + 0.05 * turn**2 * sin) / 1.1
    bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    speed = push - 0.05 * bend * cos / 1.1
    return torch.stack([x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * bend], 1)


lasted = 0.0
for step in range(25):
    state, alive = 0.05 * torch.randn(64, 4), torch.ones(64)
    logs, values, rewards = [], [], []
    for _ in range(50):
        choice = torch.distributions.Categorical(logits=actor(state))
        action = choice.sample()
        logs.append(choice.log_prob(action))
        values.append(critic(state)[:, 0])
        rewards.append(alive)
        state = move(state, action.float())
        alive = alive * (state[:, 2].abs() < 0.2) * (state[:, 0].abs() < 2.4)
    rewards = torch.stack(rewards)
    returns = rewards.flip(0).cumsum(0).flip(0)
    values = torch.stack(values)
    advantage = (returns - values).detach() * rewards
    loss = -(torch.stack(logs) * advantage).mean() + 0.01 * ((returns - values).square() * rewards).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    lasted = rewards.sum(0).mean()
    if step % 5 == 4:
        say(step, loss)
metric("steps_lasted", lasted)
