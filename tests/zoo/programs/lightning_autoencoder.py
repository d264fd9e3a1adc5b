# SPDX-License-Identifier: Apache-2.0
"""An autoencoder by Lightning's Trainer, with its own loop, callbacks and mixed precision."""

import logging
import warnings

import lightning as L
import torch
from data import digits, metric, say, seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Autoencoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.GELU(), nn.Conv2d(32, 32, 3, 2, 1), nn.GELU())
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=2), nn.Conv2d(32, 32, 3, 1, 1), nn.GELU(),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(32, 1, 3, 1, 1),
        )  # fmt: skip

    def training_step(self, batch, index):
        (x,) = batch
        loss = nn.functional.smooth_l1_loss(self.decoder(self.encoder(x)), x)
        if index % 5 == 4:
            say(index, loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


seed()
images, _ = digits(size=32)
model = Autoencoder()
trainer = L.Trainer(
    max_epochs=1, limit_train_batches=25, accelerator="cpu", precision="bf16-mixed", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0,
)  # fmt: skip
trainer.fit(model, DataLoader(TensorDataset(images[:1400]), batch_size=32, shuffle=True))
with torch.no_grad():
    metric("error", (model.decoder(model.encoder(images[1400:])) - images[1400:]).square().mean())
