# SPDX-License-Identifier: Apache-2.0
"""transformers' Whisper: convolutions over a spectrogram of synthetic tones, then an encoder and a decoder."""

import torch
from data import metric, say, seed
from transformers import WhisperConfig, WhisperForConditionalGeneration

seed()
config = WhisperConfig(
    vocab_size=64, num_mel_bins=40, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=256, max_source_positions=64,
    max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    suppress_tokens=None, begin_suppress_tokens=None,
)  # fmt: skip
model = WhisperForConditionalGeneration(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)


def tones(count):
    spoken = torch.randint(3, 40, (count, 8))
    sound = torch.nn.functional.one_hot(spoken, 40).float().repeat_interleave(16, 1).transpose(1, 2)
    return sound + 0.1 * torch.randn_like(sound), spoken


model.train()
for step in range(20):
    sound, spoken = tones(8)
    loss = model(input_features=sound, labels=spoken).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
torch.manual_seed(1)
with torch.no_grad():
    sound, spoken = tones(64)
    metric("loss", model(input_features=sound, labels=spoken).loss)
