# SPDX-License-Identifier: Apache-2.0
"""timm's MLP-Mixer."""

import timm
import torch
from data import batches, digits, metric, say, seed

seed()
images, labels = digits(size=32, channels=3)
model = timm.models.mlp_mixer.MlpMixer(num_classes=10, img_size=32, patch_size=4, num_blocks=4, embed_dim=128)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
for step, (x, y) in enumerate(batches(20, images[:1400], labels[:1400], 32)):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
with torch.no_grad():
    metric("loss", torch.nn.functional.cross_entropy(model(images[1400:1528]), labels[1400:1528]))
