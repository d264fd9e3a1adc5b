# SPDX-License-Identifier: Apache-2.0
"""Models as people get them from torchvision, timm and transformers (untrained, made from their
configurations, in small), a U-Net and an LSTM: twenty training steps each, in fp32 and in bf16 autocast."""

import contextlib
import functools
import os

# Nothing may be looked up on the network.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.nn.functional as F
from torch import nn

from workloads.models import bf16_autocast
from workloads.registry import workload
from workloads.training import train_long
from workloads.unet import UNet

CLASSES, VOCABULARY, BATCH = 10, 200, 4


def images():
    return torch.randn(BATCH, 3, 32, 32)


def tokens():
    return torch.randint(VOCABULARY, (BATCH, 24))


def classified(output, step):
    return F.cross_entropy(output, (torch.arange(BATCH) + step) % CLASSES)


def next_token(logits, sequence, step):
    """`sequence` is the batch of step 0."""
    target = sequence.roll(step, dims=0)[:, 1:]
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), target.flatten())


class LanguageLSTM(nn.Module):
    def __init__(self, width: int = 48):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.cells = nn.LSTM(width, width, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x):
        return self.head(self.cells(self.embedding(x))[0])


# Each makes a model, its batch, and the loss of (output, step). Libraries are imported by those that use them:
# that takes seconds, and tests of one model need no other's.


def resnet18():
    import torchvision

    return torchvision.models.resnet18(num_classes=CLASSES), images(), classified


def vit_tiny():
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, num_classes=CLASSES, drop_path_rate=0.1)
    return model, images(), classified


def bert_tiny():
    import transformers

    configuration = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
        max_position_embeddings=64, num_labels=CLASSES,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(configuration)
    return model, tokens(), lambda output, step: classified(output.logits, step)


def gpt2_tiny():
    import transformers

    configuration = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=2, n_head=2,
                                            bos_token_id=0, eos_token_id=0)  # fmt: skip
    sequence = tokens()
    model = transformers.GPT2LMHeadModel(configuration)
    return model, sequence, lambda output, step: next_token(output.logits, sequence, step)


def unet():
    x = images()
    return UNet(width=8, levels=2), x, lambda output, step: F.mse_loss(output, x.roll(step, dims=0))


def lstm():
    sequence = tokens()
    return LanguageLSTM(), sequence, lambda output, step: next_token(output, sequence, step)


MODELS = (resnet18, vit_tiny, bert_tiny, gpt2_tiny, unet, lstm)
# oneDNN's LSTM in bfloat16 needs AVX-512. On other processors PyTorch itself can't train it.
RUNS_BF16_LSTM = torch.backends.cpu.get_cpu_capability() == "AVX512"
PRECISIONS = {"fp32": contextlib.nullcontext, "bf16": bf16_autocast}


def train(make, precision: str, wrap=lambda model: model, seed=lambda: 0) -> dict:
    """Twenty steps of one of MODELS; `wrap` may put the model into another."""
    torch.manual_seed(seed())
    model, batch, loss_of = make()
    model = wrap(model.train())
    convolutional = make in (resnet18, unet)
    optimizer = (
        torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        if convolutional
        else torch.optim.AdamW(model.parameters(), lr=1e-3)
    )
    return train_long(model, [batch], loss_of, optimizer, context=PRECISIONS[precision])


def register(module: str, precision: str, **options):
    """One workload of `module` for each of MODELS."""
    for make in MODELS:
        if make is lstm and precision == "bf16" and not RUNS_BF16_LSTM:
            continue
        function = functools.partial(train, make, precision, **options)
        function.__name__ = f"{make.__name__}_{precision}"
        function.__module__ = module
        workload(function)


for each in PRECISIONS:
    register(__name__, each)
