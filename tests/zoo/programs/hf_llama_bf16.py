# SPDX-License-Identifier: Apache-2.0
"""transformers' Llama with all parameters in bf16."""

import torch
from data import lines, metric, say, seed
from transformers import LlamaConfig, LlamaForCausalLM

seed()
config = LlamaConfig(
    vocab_size=128, hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
model = LlamaForCausalLM(config).to(torch.bfloat16)
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
torch.manual_seed(1)
with torch.no_grad():
    x, _ = lines(64, 64)
    metric("loss", model(input_ids=x, labels=x).loss)
