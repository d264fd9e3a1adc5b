# SPDX-License-Identifier: Apache-2.0
"""The smallest model of each of torchvision's families: classification, segmentation, detection, video, optical flow."""

import torch
from torchvision.models import get_model, get_model_builder, list_models

from libraries.common import mean_square, smallest_of_each


def untrained(name: str) -> torch.nn.Module:
    parts = get_model_builder(name).__module__.split(".")
    options = {"weights_backbone": None} if {"detection", "segmentation"} & set(parts) else {}
    return get_model(name, weights=None, **options)


def names() -> list[str]:
    models = list_models(exclude="quantized_*")
    smallest = smallest_of_each(models, lambda name: get_model_builder(name).__module__, untrained)
    return sorted([*smallest, "regnet_y_400mf"])  # of this family none can be made without memory


def make(name: str):
    kind = get_model_builder(name).__module__.split(".")[2]
    model = untrained(name)
    generator = torch.Generator().manual_seed(1)
    if kind == "detection":
        images = [torch.rand(3, 96, 96, generator=generator) for _ in range(2)]
        target = {"boxes": torch.tensor([[10.0, 12, 60, 70]]), "labels": torch.tensor([1])}
        if name.startswith("mask"):
            target["masks"] = torch.ones(1, 96, 96, dtype=torch.uint8)
        if name.startswith("keypoint"):
            target["keypoints"] = torch.tensor([[[20.0, 30, 1]] * 17])
        if hasattr(model.transform, "min_size"):
            model.transform.min_size, model.transform.max_size = (96,), 128
        return model, lambda: sum(model(images, [target] * 2).values())
    if kind == "optical_flow":
        images = torch.rand(2, 2, 3, 128, 128, generator=generator)
        return model, lambda: mean_square(model(*images, num_flow_updates=3))
    for size in (64, 96, 128, 224, 299):
        images = torch.randn((2, 3, 16, size, size) if kind == "video" else (2, 3, size, size), generator=generator)
        try:
            with torch.no_grad():
                model.eval()(images)
        except Exception:
            continue
        return model, lambda: mean_square(model(images))
    raise ValueError("no size of images fits")
