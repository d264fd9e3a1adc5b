# SPDX-License-Identifier: Apache-2.0
"""The networks that gpu-check trains, as people get them: from torchvision, timm and transformers,
untrained, on random data, and in small for the fake. Imports of a case's library happen when it is made."""

import dataclasses
import os
from typing import Callable

import torch
import torch.nn.functional as F
from torch import nn

from workloads.llama import Llama
from workloads.unet import UNet

# Nothing may be looked up on the network.
os.environ["HF_HUB_OFFLINE"] = "1"


@dataclasses.dataclass(frozen=True)
class Made:
    """A network on the CPU, and how to feed and judge it."""

    model: nn.Module
    optimizer: Callable  # of parameters
    batch: Callable  # (size, generator) → (input, target), on the generator's device
    loss: Callable  # (output, target) → scalar


def _sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


def _adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4)


def _images(edge: int, classes: int):
    def batch(size, generator):
        device = generator.device
        x = torch.randn(size, 3, edge, edge, generator=generator, device=device)
        return x, torch.randint(classes, (size,), generator=generator, device=device)

    return batch


def resnet50(tiny: bool) -> Made:
    import torchvision

    if tiny:
        return Made(torchvision.models.resnet18(num_classes=10), _sgd, _images(32, 10), F.cross_entropy)
    return Made(torchvision.models.resnet50(), _sgd, _images(224, 1000), F.cross_entropy)


def vit_b16(tiny: bool) -> Made:
    import timm

    if tiny:
        model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, num_classes=10, depth=2)
        return Made(model, _adamw, _images(32, 10), F.cross_entropy)
    return Made(timm.create_model("vit_base_patch16_224"), _adamw, _images(224, 1000), F.cross_entropy)


def swin_t(tiny: bool) -> Made:
    import torchvision

    if tiny:
        model = torchvision.models.SwinTransformer([2, 2], 24, [1, 1], [2, 4], [4, 4], num_classes=10)
        return Made(model, _adamw, _images(32, 10), F.cross_entropy)
    return Made(torchvision.models.swin_t(), _adamw, _images(224, 1000), F.cross_entropy)


def _tokens(length: int, vocabulary: int):
    """Batches of tokens, each with the one that follows it as its target."""

    def batch(size, generator):
        tokens = torch.randint(vocabulary, (size, length + 1), generator=generator, device=generator.device)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return batch


def gpt2(tiny: bool) -> Made:
    import transformers

    length, vocabulary = (32, 200) if tiny else (1024, 50257)
    small = {"n_embd": 64, "n_layer": 2, "n_head": 2} if tiny else {}
    configuration = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=length, bos_token_id=0, eos_token_id=0, use_cache=False, **small
    )

    def loss(output, target):
        return F.cross_entropy(output.logits.flatten(0, 1), target.flatten())

    return Made(transformers.GPT2LMHeadModel(configuration), _adamw, _tokens(length, vocabulary), loss)


def llama(tiny: bool) -> Made:
    length, vocabulary = (32, 200) if tiny else (1024, 32000)
    size = {"width": 64, "layers": 2, "heads": 4, "groups": 2} if tiny else {"width": 768, "layers": 12, "heads": 12, "groups": 4}

    def loss(output, target):
        return F.cross_entropy(output.flatten(0, 1), target.flatten())

    return Made(Llama(vocabulary, length, **size), _adamw, _tokens(length, vocabulary), loss)


def unet(tiny: bool) -> Made:
    edge, width, levels = (32, 8, 2) if tiny else (256, 64, 4)

    def batch(size, generator):
        x = torch.randn(size, 3, edge, edge, generator=generator, device=generator.device)
        return x, x.flip(3)

    return Made(UNet(width, levels), _sgd, batch, F.mse_loss)
