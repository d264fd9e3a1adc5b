# SPDX-License-Identifier: Apache-2.0
"""transformers' GPT-2 with its gradient checkpointing."""

import torch
from data import lines, metric, say, seed
from transformers import GPT2Config, GPT2LMHeadModel

seed()
model = GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=64, n_embd=96, n_layer=3, n_head=4))
model.gradient_checkpointing_enable({"use_reentrant": False})
model.config.use_cache = False
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
model.train()
for step in range(20):
    x, _ = lines(64, 16)
    loss = model(input_ids=x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    x, _ = lines(64, 64)
    metric("loss", model(input_ids=x, labels=x).loss)
