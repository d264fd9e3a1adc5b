# SPDX-License-Identifier: Apache-2.0
"""A program: trains a small Llama of `transformers`. By itself that has a cache of each layer's keys and values.

    cached_llama.py cache|no_cache
"""

import sys

import torch
import transformers

torch.manual_seed(0)
torch.set_num_threads(1)
model = transformers.LlamaForCausalLM(
    transformers.LlamaConfig(vocab_size=64, hidden_size=128, intermediate_size=344, num_hidden_layers=6, num_attention_heads=4)
)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
how = {"use_cache": False} if sys.argv[1] == "no_cache" else {}
for step in range(4):
    tokens = torch.randint(0, 64, (4, 256))
    output = model(input_ids=tokens, labels=tokens, **how)
    if step == 0:
        print("cache" if output.past_key_values is not None else "no cache")
    output.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
