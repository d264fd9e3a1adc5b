# SPDX-License-Identifier: Apache-2.0
"""The layers of torch_geometric.nn.conv, two of a kind with a ReLU between them, over a random graph."""

import inspect

import torch
from torch import nn
from torch_geometric.nn import conv

from libraries.common import by_name

WIDTH, NODES, EDGES, KINDS = 64, 2000, 8000, 3
# What parameters of constructors are called, and their values.
SIZES = {
    "in_channels out_channels channels hidden_channels in_channels_node": WIDTH,
    "num_relations num_node_types num_edge_types K dim kernel_size": KINDS,
    "edge_dim edge_attr_emb_dim edge_type_emb_dim": 16,
    "heads num_layers": 2,
    "alpha": 0.1,
}


def mlp(width: int, out: int = WIDTH) -> nn.Module:
    return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out))


# What a layer is made with besides.
OPTIONS = {
    "APPNP": {"K": 3},
    "EdgeConv": lambda: {"nn": mlp(2 * WIDTH)},
    "GCN2Conv": {"shared_weights": False},
    "GINConv": lambda: {"nn": mlp(WIDTH)},
    "GINEConv": lambda: {"nn": mlp(WIDTH), "edge_dim": 16},
    "GPSConv": lambda: {"conv": conv.GCNConv(WIDTH, WIDTH)},
    "DirGNNConv": lambda: {"conv": conv.SAGEConv(WIDTH, WIDTH)},
    "HEATConv": {"concat": False},
    "NNConv": lambda: {"nn": mlp(16, WIDTH * WIDTH)},
    "PANConv": {"filter_size": 2},
    "PNAConv": lambda: {"aggregators": ["mean", "max", "std"], "scalers": ["identity"], "deg": torch.tensor([2, 9, 30])},
    "PointGNNConv": lambda: {"mlp_h": mlp(WIDTH, 3), "mlp_f": mlp(WIDTH + 3), "mlp_g": mlp(WIDTH)},
    "PPFConv": lambda: {"local_nn": mlp(WIDTH + 4)},
    "PointNetConv": lambda: {"local_nn": mlp(WIDTH + 3)},
}


def names() -> list[str]:
    return [name for name in conv.__all__ if name != "MessagePassing"]


def layer(name: str) -> nn.Module:
    made = getattr(conv, name)
    options = OPTIONS.get(name, {})
    given = dict(options() if callable(options) else options)
    sizes = by_name(SIZES)
    for parameter in inspect.signature(made.__init__).parameters.values():
        if parameter.default is parameter.empty and parameter.name in sizes:
            given.setdefault(parameter.name, sizes[parameter.name])
    each = made(**given)
    if name == "RGATConv":  # its own way to set this matrix does nothing, so it is as the memory was
        nn.init.constant_(each.l2, 1 / WIDTH)
    return each


class Net(nn.Module):
    """Two layers of one kind; narrower or wider results are projected back."""

    def __init__(self, name: str):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(NODES, WIDTH, generator=generator)
        self.given = {
            "edge_index": torch.randint(0, NODES, (2, EDGES), generator=generator),
            "hyperedge_index": torch.randint(0, NODES, (2, EDGES), generator=generator),
            "edge_weight": torch.rand(EDGES, generator=generator),
            "edge_attr": torch.rand(EDGES, 16, generator=generator),
            "edge_type": torch.randint(0, KINDS, (EDGES,), generator=generator),
            "node_type": torch.randint(0, KINDS, (NODES,), generator=generator),
            "pos": torch.randn(NODES, 3, generator=generator),
            "normal": torch.randn(NODES, 3, generator=generator),
            "x_0": x,
        }
        self.x = x
        self.first, self.second = layer(name), layer(name)
        wanted = inspect.signature(self.first.forward).parameters
        optional = [k for k in ("edge_attr", "edge_type", "edge_weight") if k in wanted]
        needed = [k for k, p in wanted.items() if k in self.given and p.default is p.empty]
        for names in (needed, [*needed, *optional], *([*needed, each] for each in optional)):
            try:
                with torch.no_grad():
                    out = self.run(self.first, x, names)
            except Exception as error:
                failed = error
                continue
            self.names = names
            self.between = nn.Linear(out.shape[-1], WIDTH)
            return
        raise failed

    def run(self, conv: nn.Module, x: torch.Tensor, names: list[str]) -> torch.Tensor:
        out = conv(x, **{name: self.given[name] for name in names})
        return out[0] if isinstance(out, tuple) else out

    def forward(self) -> torch.Tensor:
        x = self.run(self.first, self.x, self.names).relu()
        return self.run(self.second, self.between(x).relu(), self.names)


def make(name: str):
    net = Net(name)
    return net, lambda: net().square().mean()
