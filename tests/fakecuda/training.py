# SPDX-License-Identifier: Apache-2.0
"""Trains small models of ordinary make on the CPU and on "cuda", and compares every bit.

Prints one JSON object: for each model, null or what differs.
"""

import copy
import json
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        second, third = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.stem = nn.Sequential(first, nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.block = nn.Sequential(second, nn.BatchNorm2d(8), nn.ReLU(), third)
        self.narrow = nn.Conv2d(8, 16, 3, stride=2, groups=2)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = self.stem(x)
        x = self.up(F.silu(self.narrow(x + self.block(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))

    @staticmethod
    def batch(g):
        return torch.randn(4, 3, 16, 16, generator=g), torch.randint(0, 10, (4,), generator=g)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 10)

    def forward(self, ids):
        return self.head(self.encoder(self.embedding(ids)).mean(1))

    @staticmethod
    def batch(g):
        return torch.randint(0, 32, (4, 12), generator=g), torch.randint(0, 10, (4,), generator=g)


class CausalAttention(nn.Module):
    """Attention through PyTorch's fused kernels: causal, with a mask, and with heads of an odd size."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 24)
        self.qkv = nn.Linear(24, 72)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 10)

    def forward(self, ids):
        x = self.embedding(ids)
        for heads, masked in ((3, False), (3, True), (4, False)):
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            mask = torch.ones(12, 12, dtype=torch.bool, device=ids.device).tril() if masked else None
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=not masked)
            x = x + F.gelu(a.transpose(1, 2).flatten(2))
        return self.head(x[:, -1])

    batch = staticmethod(Transformer.batch)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.lstm = nn.LSTM(16, 16, num_layers=2, batch_first=True)
        self.gru = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, ids):
        return self.head(self.gru(self.lstm(self.embedding(ids))[0])[0][:, -1])

    batch = staticmethod(Transformer.batch)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.2), nn.GELU()) for _ in range(3))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=i == 1)
        return self.head(x)

    @staticmethod
    def batch(g):
        return torch.randn(8, 32, generator=g).requires_grad_(), torch.randint(0, 10, (8,), generator=g)


class Mixed(nn.Module):
    """Trained with autocast and a gradient scaler."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        with torch.autocast(x.device.type, torch.bfloat16):
            y = self.layers(x)
        return y.float()

    @staticmethod
    def batch(g):
        return torch.randn(8, 32, generator=g), torch.randint(0, 10, (8,), generator=g)


OPTIMIZERS = {
    Cnn: lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4, foreach=True),
    Mixed: lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
}


def train(model: nn.Module, device: str, steps: int = 4) -> dict[str, torch.Tensor]:
    """@return the losses, the gradients of the last step, the parameters and buffers, on the CPU"""
    make = OPTIMIZERS.get(type(model), lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True))
    model = copy.deepcopy(model).to(device)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=isinstance(model, Mixed), init_scale=2.0**40, growth_interval=2)
    g = torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        x, y = (t.to(device) for t in model.batch(g))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    state = {"losses": torch.stack(losses)} | dict(model.state_dict())
    state |= {f"{name}.grad": p.grad for name, p in model.named_parameters()}
    return {name: t.cpu() for name, t in state.items()}


def difference(model: type[nn.Module]) -> str | None:
    torch.manual_seed(0)
    made = model()
    # oneDNN's LSTM computes in another order than PyTorch's own cells, which are those of CUDA.
    with torch.backends.mkldnn.flags(enabled=model is not Recurrent):
        cpu, cuda = train(made, "cpu"), train(made, "cuda")
    if not cpu["losses"].isfinite().all():
        return f"losses are not finite: {cpu['losses'].tolist()}"
    if model is Recurrent:
        # CUDA's fused cells make autograd add up the weights' gradients in another order.
        different = [name for name in cpu if not torch.allclose(cpu[name], cuda[name], rtol=1e-3, atol=1e-4)]
    else:
        different = [name for name in cpu if not torch.equal(cpu[name], cuda[name])]
    return f"{different}; losses {cpu['losses'].tolist()}, {cuda['losses'].tolist()}" if different else None


MODELS = [Cnn, Transformer, CausalAttention, Recurrent, Checkpointed, Mixed]

if __name__ == "__main__":
    wanted = [m for m in MODELS if not sys.argv[1:] or m.__name__ in sys.argv[1:]]
    print(json.dumps({m.__name__: difference(m) for m in wanted}))
