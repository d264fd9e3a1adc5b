# SPDX-License-Identifier: Apache-2.0
"""The smallest model of each of timm's families."""

import timm
import torch

MOST_PARAMETERS = 30e6


def names() -> list[str]:
    smallest = {}
    for name in timm.list_models():
        module = timm.models._registry._model_to_module[name]
        try:
            with torch.device("meta"):
                size = sum(p.numel() for p in timm.create_model(name).parameters())
        except Exception:
            continue
        smallest[module] = min(smallest.get(module, (size, name)), (size, name))
    return sorted(name for size, name in smallest.values() if size < MOST_PARAMETERS)


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
