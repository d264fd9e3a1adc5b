# SPDX-License-Identifier: Apache-2.0
"""Compiled regions are held by what their backward reads them for, read from the graph of that backward."""

import json

import pytest

import harness

# A convolutional stem with batch norm and ReLU, and two blocks of a transformer, in one region.
MODEL = """
import json, sys, torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        qkv = self.qkv(self.first(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*qkv).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 64, 3, 2, 1))
        self.blocks, self.head = nn.Sequential(Block(64), Block(64)), nn.Linear(64, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(1))

model = Model()
compiled = torch.compile(model, backend=sys.argv[1])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
losses = []
for step in range(40):
    x = torch.randn(16, 1, 32, 32)
    y = F.avg_pool2d(x, 8).abs().sum((2, 3)) - 1.6
    loss = (compiled(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
"""

PERCEPTRON = """
import torch
from torch import nn
torch.manual_seed(0)
layers = nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 8)
model = nn.Sequential(*layers)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = compiled(torch.randn(512, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""

# Reads one region's graph as the core does, from its nodes, and from the text that a cache would have.
GRAPHS = """
import pathlib, sys, torch
from workloads.models import Block
torch.compile(Block(dropout=0.1), backend=sys.argv[1])(torch.randn(4, 16, 64))
(region,) = [c for c in torch.autograd.Function.__subclasses__() if c.__name__ == "CompiledFunction"]
reader = {"number": region._backward_cls._autograd_function_id}
exec(pathlib.Path(sys.argv[2]).read_text(), reader)
graph = region._lazy_backward_info.bw_module.graph
of_nodes, of_text = reader["from_nodes"](graph.nodes), reader["from_text"](graph.python_code("self").src.strip())
assert of_nodes == of_text, (of_nodes, of_text)
print(reader["graph"])
"""

EXACT = {"exponent_pack", "two_valued", "kept"}
ENCODE_ALL = {"version": 1, "policy": "default", "raw_window": 0}


def codecs(done) -> dict[str, set[str]]:
    """Of each operand that regions saved, how it was held."""
    held: dict[str, set[str]] = {}
    for row in done.report["ops"]:
        if row["op"] == "CompiledFunction":
            held.setdefault(row["operand"], set()).add(row["codec"])
    return held


@pytest.fixture(scope="module", params=["aot_eager", "aot_eager_decomp_partition"])
def runs(request, tmp_path_factory):
    """Plainly, under lossless and under the default: as autograd's operators, and decomposed as for inductor."""
    folder = tmp_path_factory.mktemp("runs")
    program = ["-c", MODEL, request.param]
    return (
        request.param,
        harness.run_python(program, folder / "plain"),
        harness.run_python(program, folder / "lossless", harness.LOSSLESS),
        harness.run_python(program, folder / "default", ENCODE_ALL),
    )


@pytest.mark.quick
def test_lossless_has_the_same_bits(runs):
    _, plain, lossless, _ = runs
    assert lossless.stdout == plain.stdout
    assert set().union(*codecs(lossless).values()) <= EXACT


@pytest.mark.quick
def test_default_holds_regions_as_it_holds_operators(runs):
    backend, _, _, default = runs
    held = codecs(default)
    attention = "_scaled_dot_product_flash_attention_for_cpu "
    assert "exponent_pack" in held[attention + "logsumexp"]
    assert "group_quant 8-bit dithered" in held[attention + "query"]
    assert "group_quant 3-bit dithered" in held["mm mat2"]
    assert "group_quant 4-bit + sign" in held["convolution input, relu result"]
    if backend == "aot_eager":
        assert "group_quant 3-bit dithered" in held["gelu self"]
        assert "group_quant 4-bit dithered" in held["native_layer_norm input"]
        assert "group_quant 3-bit dithered" in held["native_batch_norm input"]
    else:
        assert "group_quant 4-bit" in held["mul self"]
    for operand, codec in held.items():
        if operand.endswith(("logsumexp", "mean", "rstd", "invstd", "weight")):
            assert codec <= EXACT, operand


@pytest.mark.quick
def test_default_trains_as_plain(runs):
    _, plain, _, default = runs
    last, expected = (sum(json.loads(done.stdout)[-10:]) for done in (default, plain))
    assert last == pytest.approx(expected, rel=0.05)
    assert default.stdout != plain.stdout
    assert default.report["ratio"] > 5


@pytest.mark.quick
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_nodes_and_text_say_the_same(backend, tmp_path):
    reader = harness.ROOT / "hooks/torch/program/backward_graph.py"
    graph = harness.run_python(["-c", GRAPHS, backend, reader], tmp_path).stdout
    kinds = [line.split("\t")[0] for line in graph.splitlines()]
    assert kinds.count("saved") > 20
    assert kinds.count("gradient") == kinds.count("output") == 1
    assert kinds.count("call") > 50


def test_inductors_cache_has_the_graph_too(tmp_path):
    program = ["-c", PERCEPTRON]
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    plain = harness.run_python(program, tmp_path / "plain", extra=cache)
    lossless = harness.run_python(program, tmp_path / "lossless", harness.LOSSLESS, extra=cache)
    assert lossless.stdout == plain.stdout
    warm = harness.run_python(program, tmp_path / "warm", ENCODE_ALL, extra=cache)
    no_cache = cache | {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    cold = harness.run_python(program, tmp_path / "cold", ENCODE_ALL, extra=no_cache)
    held = codecs(warm)
    assert held == codecs(cold)
    assert warm.stdout == cold.stdout
    assert "group_quant 3-bit dithered" in held["mm mat2"]
    assert "group_quant 4-bit" in held["mul self"]
    losses, expected = ([float(loss) for loss in done.stdout.split()] for done in (warm, plain))
    assert losses[0] == expected[0]
    assert losses == pytest.approx(expected, rel=0.05)
