# SPDX-License-Identifier: Apache-2.0
"""A program: prints how far the gradients of layers with fused attention are off, the largest squared error of a layer
relative to its gradient. Scores are as large as those of trained language models. With "changes" it changes what it
keeps, and prints nothing if backward raises PyTorch's error.

    attention_gradients.py cpu|cuda TYPE [keeps [changes]] [efficient] [twice] [unlike]
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

device, type_name, *how = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(0)
dtype = getattr(torch, type_name)
BATCH, HEADS, LENGTH, SIZE, LAYERS, STEPS = 4, 4, 64, 16, 4, 6
WIDTH = HEADS * SIZE
layers = [nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(LAYERS)]
for layer in layers:
    nn.init.normal_(layer.weight, std=1.7 / WIDTH**0.5)
    if "unlike" in how:  # a feature of each head is far larger than others in keys, and smaller in queries
        with torch.no_grad():
            layer.weight[WIDTH : 2 * WIDTH : SIZE] *= 8
            layer.weight[:WIDTH:SIZE] /= 8
    layer.to(device, dtype)
inputs = [torch.randn(BATCH, LENGTH, WIDTH).to(device, dtype) for _ in layers]
factors = [torch.randn(BATCH, HEADS, LENGTH, SIZE).to(device, dtype) for _ in layers]


def heads(layer, x):
    """Query, key and value, each in memory of its own."""
    return [part.contiguous() for part in layer(x).view(BATCH, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)]


def attend(q, k, v):
    """A mask, which nobody but autograd keeps, makes CUDA take another kernel."""
    masked = "efficient" in how
    mask = q.new_zeros(BATCH, HEADS, LENGTH, LENGTH) if masked else None
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=not masked)


def exact_gradient(layer, x, factor):
    """In float64, on the host, written out."""
    weight = layer.weight.detach().cpu().double().requires_grad_()
    q, k, v = F.linear(x.cpu().double(), weight).view(BATCH, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-2, -1) / SIZE**0.5
    if "efficient" not in how:
        scores = scores.masked_fill(torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), float("-inf"))
    return torch.autograd.grad(((scores.softmax(-1) @ v) * factor.cpu().double()).sum(), weight)[0]


exact = [exact_gradient(*each) for each in zip(layers, inputs, factors)]
kept = []
for step in range(STEPS):
    loss = 0
    for layer, x, factor in zip(layers, inputs, factors):
        q, k, v = heads(layer, x)
        if "keeps" in how:
            kept.append(k)
        # Saved once more by the product, as a linear layer behind it would.
        loss = loss + (attend(q, k, v) * factor).sum()
        del q, k, v
    if "changes" in how and step == STEPS - 1:
        with torch.no_grad():
            kept[0].add_(1)
        try:
            loss.backward()
        except RuntimeError as error:
            sys.exit(f"{error}" if "inplace" not in f"{error}" else 0)
    for again in range(1 + ("twice" in how)):
        for layer in layers:
            layer.weight.grad = None
        loss.backward(retain_graph="twice" in how and not again)
    kept.clear()
    del loss
errors = [((layer.weight.grad.cpu().double() - of).square().sum() / of.square().sum()).item() for layer, of in zip(layers, exact)]
print(max(errors))
