# SPDX-License-Identifier: Apache-2.0
"""torchvision's FCOS detector on a small backbone: digits on a canvas, boxes, focal loss, deformations of shapes."""

import torch
import torchvision
from data import digits, metric, say, seed
from torch import nn
from torchvision.models.detection import FCOS
from torchvision.models.detection.anchor_utils import AnchorGenerator

seed()
images, labels = digits(size=16, channels=3)


class Backbone(nn.Sequential):
    out_channels = 64

    def __init__(self):
        layers = []
        for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
            layers += [nn.Conv2d(inputs, outputs, 3, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
        super().__init__(*layers)


model = FCOS(
    Backbone(), num_classes=10, min_size=64, max_size=64,
    anchor_generator=AnchorGenerator(((16,),), ((1.0,),)), image_mean=[0.0] * 3, image_std=[1.0] * 3,
)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def canvases(count):
    scenes, targets = [], []
    for _ in range(count):
        scene, boxes, kinds = -torch.ones(3, 64, 64), [], []
        for _ in range(2):
            which = int(torch.randint(len(images), ()))
            top, left = torch.randint(48, (2,)).tolist()
            scene[:, top : top + 16, left : left + 16] = images[which]
            boxes.append([left, top, left + 16, top + 16])
            kinds.append(labels[which])
        scenes.append(scene)
        targets.append({"boxes": torch.tensor(boxes, dtype=torch.float32), "labels": torch.stack(kinds)})
    return scenes, targets


for step in range(12):
    loss = sum(model(*canvases(8)).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 2:
        say(step, loss)
torch.manual_seed(1)
with torch.no_grad():
    metric("loss", sum(model(*canvases(16)).values()))
