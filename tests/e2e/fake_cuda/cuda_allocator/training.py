# SPDX-License-Identifier: Apache-2.0
"""A small training on the (fake) GPU with several streams. Prints its losses, bit for bit, and
figures."""

import json

import fakecuda
import torch
from torch import nn

from figures import figures


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.down, self.layer_norm = nn.Linear(8 * 16, 32), nn.LayerNorm(32)
        self.attention = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.embedding, self.out = nn.Embedding(10, 32), nn.Linear(32, 10)

    def forward(self, images, words):
        h = torch.relu(self.norm(self.conv(images)))
        h = nn.functional.max_pool2d(h, 2).flatten(1)
        h = self.layer_norm(self.down(h)).unsqueeze(1) + self.embedding(words)
        return self.out(nn.functional.gelu(self.attention(h))).mean(1)


def main():
    torch.manual_seed(1)
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    copies = torch.cuda.Stream()
    losses = []
    for step in range(4):
        count = 3 + step % 3
        with torch.cuda.stream(copies):  # as a prefetcher does
            images = torch.randn(4, 3, 8, 8, generator=generator).cuda(non_blocking=True)
            words = torch.randint(0, 10, (4, count), generator=generator).cuda(non_blocking=True)
            labels = torch.randint(0, 10, (4,), generator=generator).cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        for t in (images, words, labels):
            t.record_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", torch.bfloat16, enabled=step == 3):
            loss = nn.functional.cross_entropy(model(images, words), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        del images, words, labels, loss
        if step == 1:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    print(json.dumps({"losses": losses, "allocated": torch.cuda.memory_allocated(),
                      "faults": fakecuda.control().faults(), "figures": figures()}))


main()
