# SPDX-License-Identifier: Apache-2.0
"""Trains published models, unmodified, on the CPU and on "cuda", and compares every bit.

Prints one JSON object: for each model, null or what differs.
"""

import copy
import json

import torch
import torchvision
import transformers

SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "intermediate_size": 128}


def words(g):
    ids = torch.randint(0, 200, (2, 32), generator=g)
    return {"input_ids": ids, "labels": ids}


def picture(g):
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=g), "labels": torch.randint(0, 10, (2,), generator=g)}


def gpt2():
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=64, n_positions=64, vocab_size=200)
    return transformers.GPT2LMHeadModel(config), words


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=200, **SMALL)), words


def llama():
    config = transformers.LlamaConfig(vocab_size=200, num_key_value_heads=2, **SMALL)
    return transformers.LlamaForCausalLM(config), words


def vit():
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=10, **SMALL)
    return transformers.ViTForImageClassification(config), picture


class Classifier(torch.nn.Module):
    """A model of torchvision's with the interface of the others."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, pixel_values, labels):
        return torch.nn.functional.cross_entropy(self.model(pixel_values), labels), None


def resnet18():
    return Classifier(torchvision.models.resnet18(num_classes=10)), picture


def mobilenet():
    return Classifier(torchvision.models.mobilenet_v3_small(num_classes=10)), picture


MODELS = {"gpt2": gpt2, "bert": bert, "llama": llama, "vit": vit, "resnet18": resnet18, "mobilenet": mobilenet}


def train(model: torch.nn.Module, batch, device: str) -> list[torch.Tensor]:
    """@return the losses, then the parameters, on the CPU"""
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    losses = []
    for _ in range(3):
        loss = model(**{name: t.to(device) for name, t in batch(g).items()})[0]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return losses + [p.detach().cpu() for p in model.parameters()]


def difference(make) -> str | None:
    torch.manual_seed(0)
    model, batch = make()
    cpu, cuda = train(model, batch, "cpu"), train(model, batch, "cuda")
    if all(torch.equal(a, b) for a, b in zip(cpu, cuda)):
        return None
    return f"losses {[t.item() for t in cpu[:3]]}, {[t.item() for t in cuda[:3]]}"


if __name__ == "__main__":
    print(json.dumps({name: difference(make) for name, make in MODELS.items()}))
