# SPDX-License-Identifier: Apache-2.0
"""diffusers' U-Net with attention, trained to tell the noise that its scheduler added."""

import torch
from data import batches, digits, metric, say, seed
from diffusers import DDPMScheduler, UNet2DModel

seed()
images, labels = digits(size=16)
model = UNet2DModel(
    sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(32, 64),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
)  # fmt: skip
scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def loss_of(x):
    noise, when = torch.randn_like(x), torch.randint(100, (len(x),))
    return torch.nn.functional.mse_loss(model(scheduler.add_noise(x, noise, when), when).sample, noise)


for step, (x, _) in enumerate(batches(20, images[:1400], labels[:1400], 16)):
    loss = loss_of(x)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    metric("loss", loss_of(images[1400:1656]))
