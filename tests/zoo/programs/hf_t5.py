# SPDX-License-Identifier: Apache-2.0
"""transformers' T5: relative positions, eager attention, an encoder and a decoder; it learns to reverse lines."""

import torch
from data import lines, metric, say, seed
from transformers import T5Config, T5ForConditionalGeneration

seed()
config = T5Config(
    vocab_size=128, d_model=64, d_kv=16, d_ff=256, num_layers=2, num_heads=4, decoder_start_token_id=0,
    feed_forward_proj="gated-gelu",
)  # fmt: skip
model = T5ForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model.train()
for step in range(20):
    x, _ = lines(48, 16)
    loss = model(input_ids=x, labels=x.flip(1)).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    x, _ = lines(48, 64)
    metric("loss", model(input_ids=x, labels=x.flip(1)).loss)
