# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on sequences of all lengths, and tells what was reserved and what was
allocated at the peak."""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
from torch import nn  # noqa: E402

import cinch_here  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--tiny", action="store_true")
parser.add_argument("--fake", action="store_true")
options = parser.parse_args()
if options.fake:
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)

width, layers, batch, longest = (32, 2, 2, 64) if options.tiny else (768, 8, 16, 1024)
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
lengths = torch.randint(longest // 8, longest + 1, (options.steps,), generator=torch.Generator().manual_seed(0))
for length in lengths.tolist():
    x = torch.randn(batch, length, width, device="cuda")
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(json.dumps({
    "allocated": torch.cuda.max_memory_allocated(),
    "reserved": torch.cuda.max_memory_reserved(),
    "loss": loss.item(),
    "cuda_allocator": cinch_here.allocator() is not None,
}))  # fmt: skip
