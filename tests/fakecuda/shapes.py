# SPDX-License-Identifier: Apache-2.0
"""Trains a small network, and without FAKECUDA_COMPUTE a huge one too. Prints what it asked of PyTorch's CUDA
allocator, in order, the bytes of the process that were resident at most, and what says that it needs values."""

import json
import os
import resource

import fakecuda
import torch
from torch import nn

HISTORY = ["segment_alloc", "segment_free", "free_completed"]


class Net(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.words, self.layer_norm = nn.Embedding(10, width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.out = nn.Linear(width, 10)

    def forward(self, images, ids):
        h = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(images))), 2).flatten(2).transpose(1, 2)
        h = self.layer_norm(torch.cat([h, self.words(ids)], 1))
        h = h + self.attention(h, h, h, need_weights=False)[0]
        return self.out(nn.functional.gelu(nn.functional.dropout(h, 0.1))).mean(1)


def train(width: int, batch: int, size: int):
    model = Net(width).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(3):
        images = torch.ones(1, 1, 1, 1, device="cuda").expand(batch, 3, size, size).contiguous()
        ids = torch.zeros(batch, 5, dtype=torch.long, device="cuda")
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(images, ids), ids[:, 0])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        loss.item()


torch.cuda.memory._record_memory_history(context=None, skip_actions=HISTORY)
train(32, 4, 8)
history = [[entry["action"], entry["size"]] for entry in torch.cuda.memory._snapshot()["device_traces"][0]]
torch.cuda.memory._record_memory_history(enabled=None)
result = {"history": history, "refusal": None}
if os.environ["FAKECUDA_COMPUTE"] == "0":
    torch.cuda.reset_peak_memory_stats()
    train(1024, 256, 64)
    result["peak"] = torch.cuda.max_memory_allocated()
    try:
        torch.ones(3, device="cuda").nonzero()
    except NotImplementedError as error:
        result["refusal"] = str(error)
result["resident"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
result["faults"] = fakecuda.control().faults()
print(json.dumps(result))
