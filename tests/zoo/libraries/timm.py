# SPDX-License-Identifier: Apache-2.0
"""The smallest model of each of timm's families."""

import timm
import torch

from libraries.common import smallest_of_each


def names() -> list[str]:
    family_of = timm.models._registry._model_to_module.get
    return sorted(smallest_of_each(timm.list_models(), family_of, timm.create_model, most=30e6))


def make(name: str):
    labels = torch.tensor([1, 2])
    for size in (64, 96, 128, 224, 256):
        for options in ({"img_size": size}, {}):
            try:
                model = timm.create_model(name, num_classes=10, **options).eval()
                images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
                with torch.no_grad():
                    model(images)
            except Exception:
                continue
            return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)
    raise ValueError("no size of images fits")
