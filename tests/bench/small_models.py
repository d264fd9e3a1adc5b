# SPDX-License-Identifier: Apache-2.0
"""Small models and real data for benchmarks of what compression does to training."""

import torch
import torch.nn.functional as F
from torch import nn


def digits(size: int, seed: int):
    """scikit-learn's digits, split by the seed: training images and classes, test images and classes, and
    what makes images `size` pixels wide."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    y = torch.tensor(data.target)
    train, test = train_test_split(range(len(y)), test_size=0.3, random_state=seed, stratify=data.target)

    def grow(t):
        return F.interpolate(t, size=(size, size), mode="bilinear", align_corners=False)

    return x[train], y[train], x[test], y[test], grow


def cnn() -> nn.Module:
    """A convolutional net with batch norm and max-pool, for digits at 16 x 16."""
    def block(i, o):
        return [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
    return nn.Sequential(
        nn.Sequential(*block(1, 16), *block(16, 16), nn.MaxPool2d(2)),
        nn.Sequential(*block(16, 32), *block(32, 32), nn.MaxPool2d(2)),
        nn.Sequential(*block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


def resnet18() -> nn.Module:
    """torchvision's ResNet-18 at a quarter of its width, for digits at 32 x 32."""
    from torchvision.models.resnet import BasicBlock, ResNet
    class Small(ResNet):
        def __init__(self):
            super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=10)
    model = Small()
    # A quarter of the width, and no early reduction of 32 x 32 images.
    def narrow(module):
        for child_name, child in module.named_children():
            if isinstance(child, nn.Conv2d):
                inputs = child.in_channels // 4 if child.in_channels > 3 else 1
                setattr(module, child_name, nn.Conv2d(inputs, child.out_channels // 4, child.kernel_size,
                                                      child.stride, child.padding, bias=False))
            elif isinstance(child, nn.BatchNorm2d):
                setattr(module, child_name, nn.BatchNorm2d(child.num_features // 4))
            else:
                narrow(child)
    narrow(model)
    model.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    model.fc = nn.Linear(128, 10)
    return model


def convnext() -> nn.Module:
    """torchvision's ConvNeXt, three stages of 32, 64 and 128 channels, for digits at 32 x 32."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    stages = [CNBlockConfig(32, 64, 2), CNBlockConfig(64, 128, 2), CNBlockConfig(128, None, 2)]
    model = ConvNeXt(stages, stochastic_depth_prob=0.1, num_classes=10)
    model.features[0][0] = nn.Conv2d(1, 32, 2, stride=2)  # patches of 4 x 4 are for larger images
    return model


def attention_written_out(q, k, v, is_causal: bool):
    """scaled_dot_product_attention, as programs older than it have it."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, dim, heads, causal):
        super().__init__()
        self.heads, self.causal, self.attend = heads, causal, F.scaled_dot_product_attention
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in self.qkv(x).chunk(3, dim=-1))
        y = self.attend(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads, causal):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(dim), nn.LayerNorm(dim), Attention(dim, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A transformer that writes: of bytes, or of words."""

    def __init__(self, dim=96, heads=4, layers=3, context=96, vocabulary=256):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.blocks, self.norm = nn.Sequential(*[Block(dim, heads, True) for _ in range(layers)]), nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary, bias=False)
    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])))


class RMSNorm(nn.Module):
    """As transformers writes it out."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotated(x, cos, sin):
    """Rotary positions (Su et al., RoFormer)."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaBlock(nn.Module):
    """Grouped queries, and SwiGLU."""

    def __init__(self, dim, heads, groups):
        super().__init__()
        self.heads, self.groups, size, hidden = heads, groups, dim // heads, 8 * dim // 3
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.q, self.out = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.k, self.v = nn.Linear(dim, groups * size, bias=False), nn.Linear(dim, groups * size, bias=False)
        self.gate, self.up = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
    def forward(self, x, cos, sin):
        b, t, d = x.shape
        h = self.norm1(x)
        q, k, v = (part.view(b, t, -1, d // self.heads).transpose(1, 2) for part in (self.q(h), self.k(h), self.v(h)))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (part.repeat_interleave(self.heads // self.groups, dim=1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """A decoder as in Llama, of bytes."""

    def __init__(self, dim=96, heads=4, groups=2, layers=3, context=96):
        super().__init__()
        self.tokens, self.norm, self.head = nn.Embedding(256, dim), RMSNorm(dim), nn.Linear(dim, 256, bias=False)
        self.blocks = nn.ModuleList([LlamaBlock(dim, heads, groups) for _ in range(layers)])
        size = dim // heads
        angles = torch.arange(context)[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))
    def forward(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x, self.cos[: x.shape[1]], self.sin[: x.shape[1]])
        return self.head(self.norm(x))


class LSTM(nn.Module):
    """A byte-level language model of two recurrent layers with dropout between them."""

    def __init__(self, dim=64, hidden=128):
        super().__init__()
        self.tokens, self.head = nn.Embedding(256, dim), nn.Linear(hidden, 256)
        self.cells = nn.LSTM(dim, hidden, num_layers=2, batch_first=True, dropout=0.1)
    def forward(self, x):
        return self.head(self.cells(self.tokens(x))[0])


class Classifier(nn.Module):
    """BERT in tiny: an encoder of bytes, classified by the mean of what it makes of them."""

    def __init__(self, classes, dim=64, heads=4, layers=2, context=96):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads, False) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)
    def forward(self, x):
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])).mean(1))


class ViT(nn.Module):
    """ViT in tiny: patches of 4 x 4 out of 32 x 32."""

    def __init__(self, classes=10, dim=64, heads=4, layers=4):
        super().__init__()
        self.patches, self.places = nn.Conv2d(1, dim, 4, stride=4), nn.Parameter(torch.randn(64, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, False) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)
    def forward(self, x):
        return self.head(self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places)).mean(1))


class UNet(nn.Module):
    """Two levels down and up, with group norm and SiLU, as diffusion models have them."""

    def __init__(self, width=16):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())
        self.down1, self.down2, self.middle = block(1, width), block(width, 2 * width), block(2 * width, 2 * width)
        self.up2, self.up1 = block(4 * width, width), block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)
    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.avg_pool2d(fine, 2))
        y = F.interpolate(self.middle(F.avg_pool2d(coarse, 2)), scale_factor=2)
        y = F.interpolate(self.up2(torch.cat([y, coarse], 1)), scale_factor=2)
        return self.out(self.up1(torch.cat([y, fine], 1)))
