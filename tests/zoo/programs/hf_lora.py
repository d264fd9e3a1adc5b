# SPDX-License-Identifier: Apache-2.0
"""peft's LoRA on transformers' Qwen2: the model's own weights are frozen."""

import torch
from data import lines, metric, say, seed
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

seed()
config = Qwen2Config(
    vocab_size=128, hidden_size=96, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)  # fmt: skip
model = get_peft_model(
    Qwen2ForCausalLM(config), LoraConfig(r=8, target_modules=["q_proj", "v_proj", "up_proj"], lora_dropout=0.05)
)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
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
