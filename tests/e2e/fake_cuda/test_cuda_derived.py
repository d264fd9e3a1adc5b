# SPDX-License-Identifier: Apache-2.0
"""Derived values of "cuda" tensors, on the fake runtime: PyTorch's bits, the CPU's bytes, and no wait of the host."""

import json

import pytest

import fake_device
import harness
import programs
from workloads import registry

pytestmark = fake_device.needed

PROGRAM = """
import json, sys
import torch
from torch import nn
torch.set_num_threads(1)
torch.backends.cudnn.enabled = False
torch.manual_seed(0)
kind, device = sys.argv[1:]
if kind == "mlp":
    block = lambda: [nn.LayerNorm(64), nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)]
    model = nn.Sequential(nn.Linear(32, 64), *[layer for _ in range(3) for layer in block()])
    shape = 32, 32
elif kind.startswith("gelu by hand"):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inner, self.outer = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
        def forward(self, x):
            with torch.autocast(device, torch.bfloat16, enabled="autocast" in kind):
                x = self.inner(self.norm(x))
                return self.outer(0.5 * x * (1.0 + torch.tanh(0.8 * (x + 0.044715 * torch.pow(x, 3.0)))))
    model = nn.Sequential(nn.Linear(32, 64), *[Layer() for _ in range(3)])
    shape = 32, 32
elif kind == "rms norm":
    block = lambda: [nn.RMSNorm(64), nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 64)]
    model = nn.Sequential(nn.Linear(32, 64), *[layer for _ in range(3) for layer in block()])
    shape = 32, 32
elif kind == "functions":
    class Functions(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.slope = nn.Linear(64, 64), nn.Linear(96, 64), nn.PReLU(64)
        def forward(self, x):
            y = self.first(x).sigmoid()
            stacked = torch.stack([nn.functional.pad(y, (16, 16)), y.repeat(1, 2)[:, :96].clamp(0.25, 0.75).neg()])
            return self.slope(torch.add(*self.last(stacked), alpha=0.5))
    model = nn.Sequential(nn.Linear(32, 64), *[Functions() for _ in range(3)], nn.Linear(64, 8))
    shape = 32, 32
elif kind == "dropout":
    block = lambda: [nn.LayerNorm(64), nn.Dropout(0.15), nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 64)]
    model = nn.Sequential(nn.Linear(32, 64), *[layer for _ in range(3) for layer in block()])
    shape = 32, 32
elif kind in ("flash", "efficient", "cudnn attention"):
    class Attention(nn.Linear):
        def forward(self, x):
            query, key, value = super().forward(x).view(4, 16, 3, 4, 16).permute(2, 0, 3, 1, 4).contiguous()
            if kind == "cudnn attention":
                y = torch.ops.aten._scaled_dot_product_cudnn_attention(query, key, value, None, True)[0]
            else:
                mask = torch.randn(4, 4, 16, 16, device=x.device) if kind == "efficient" else None
                y = nn.functional.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)
            return y.transpose(1, 2).reshape(4, 16, 64)
    block = lambda: [Attention(64, 192), nn.Linear(64, 64)]
    model = nn.Sequential(nn.Linear(32, 64), *[layer for _ in range(3) for layer in block()])
    shape = 4, 16, 32
else:
    class Cudnn(nn.BatchNorm2d):  # which cuDNN's own switch does not reach on the fake runtime
        def forward(self, x):
            trains, statistics = self.training, (self.running_mean, self.running_var)
            return torch.cudnn_batch_norm(x, self.weight, self.bias, *statistics, trains, self.momentum, self.eps)[0]
    norm = lambda: (Cudnn if "cudnn" in kind else nn.BatchNorm2d)(8).train("frozen" not in kind)
    block = lambda: [norm(), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)]
    model = nn.Sequential(nn.Conv2d(3, 8, 3), *[layer for _ in range(3) for layer in block()])
    shape = 8, 3, 16, 16
model.to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
if device == "cuda":
    import fakecuda
    control = fakecuda.control()
batches = [torch.randn(shape).to(device) for _ in range(12)]
gradients, before = [], 0
for step, x in enumerate(batches):
    if device == "cuda" and step == 1:
        before = control.host_syncs()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    gradients.append([p.grad.clone() for p in model.parameters()])
    optimizer.step()
waits = control.host_syncs() - before if device == "cuda" else 0
found = [[g.double().norm().item() for g in each] for each in gradients]
sums = [[g.view(torch.int32).long().sum().item() for g in each] for each in gradients]
print(json.dumps({"norms": found, "bits": sums, "waits": waits, "faults": control.faults() if device == "cuda" else 0}))
"""
KINDS = ["mlp", "convolutions", "functions"]
SOURCES = {"mlp": {"native_layer_norm", "gelu"}, "convolutions": {"native_batch_norm"}, "functions": {"sigmoid", "_prelu_kernel"}}
# What the CPU has no nodes for, and whether the fake rounds as the recipe does; as a GPU saves it nearly always.
ON_DEVICES_ALONE = {
    "frozen": ("native_batch_norm", True),
    "cudnn": ("cudnn_batch_norm", False),
    "frozen cudnn": ("cudnn_batch_norm", False),
    "dropout": ("native_layer_norm", True),
    "rms norm": ("_fused_rms_norm", True),
    "gelu by hand": ("pow", True),  # on the CPU tanh is never more than near
    "gelu by hand under autocast": ("pow", True),
    "flash": ("_scaled_dot_product_flash_attention", True),
    "efficient": ("_scaled_dot_product_efficient_attention", True),
    "cudnn attention": ("_scaled_dot_product_cudnn_attention", True),
}
QUICK = {"cudnn", "dropout", "flash", "rms norm", "gelu by hand under autocast"}
DEFAULT = harness.LOSSLESS | {"policy": "default", "guard": {"every_steps": 0}}  # whose looks make the host wait


def train(folder, kind, device="cuda", policy=None, **fake):
    run = fake_device.start(["-c", PROGRAM, kind, device], folder, device, policy, **fake)
    return json.loads(run.stdout), run.report


class Plainly(dict):
    """What a kind comes to without Cinch, computed when it is asked for."""

    def __init__(self, folders):
        self.folders = folders

    def __missing__(self, kind):
        self[kind], _ = train(self.folders.mktemp(kind), kind)
        return self[kind]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Plainly(tmp_path_factory)


def derived(report) -> dict[str, dict]:
    """The rows of what is derived, by the operator that made the source."""
    rows = [row for row in report["ops"] if row["codec"].startswith("derived from ")]
    return {row["codec"].split("::")[1].split()[0]: row for row in rows}


# The first comparison of a kind is known a step later where events come late.
SCHEDULES = [
    pytest.param("eager", "current", {}, id="eager"),
    pytest.param("random:2", "current", fake_device.LATE, id="random"),
    pytest.param("lazy", "side", fake_device.LATE, id="lazy, side"),
]


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schedule, stream, late", SCHEDULES)
def test_lossless_is_plain(plain, kind, schedule, stream, late, tmp_path):
    policy = harness.LOSSLESS | {"stream": stream}
    found, report = train(tmp_path, kind, policy=policy, schedule=schedule, **late)
    assert found == plain[kind]  # and so the host waited no more than plainly, and nothing was at fault
    rows = derived(report)
    assert rows.keys() == SOURCES[kind], report["ops"]
    for row in rows.values():  # of twelve steps and three blocks
        assert row["count"] >= 24 and row["stored_bytes"] <= row["raw_bytes"] / 16, row


@pytest.mark.quick
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", [harness.LOSSLESS, DEFAULT], ids=["lossless", "default"])
def test_holds_as_many_bytes_as_the_cpu(plain, kind, policy, tmp_path):
    masks = {"derive": {"signs_in_sources": False}}  # as on a device
    on_host, expected = train(tmp_path / "cpu", kind, "cpu", policy | masks)
    found, report = train(tmp_path / "cuda", kind, policy=policy, schedule="random:1", poison=True)
    assert report["raw_bytes_at_peak"] == expected["raw_bytes_at_peak"]
    assert report["stored_bytes_at_peak"] == expected["stored_bytes_at_peak"] < 0.6 * report["raw_bytes_at_peak"]
    assert found["waits"] == plain[kind]["waits"] and found["faults"] == 0
    for step, norms in enumerate(found["norms"]):
        bound = 0 if policy is harness.LOSSLESS else 0.2
        assert norms == pytest.approx(plain[kind]["norms"][step], rel=bound, abs=bound * max(norms))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.quick] * (kind in QUICK)) for kind in ON_DEVICES_ALONE]
)
def test_what_only_a_device_saves_is_derived(plain, kind, tmp_path):
    """Exactly under `lossless`, where that gives PyTorch's bits; near it where the policy approximates."""
    source, is_exact = ON_DEVICES_ALONE[kind]
    for name, policy in [("lossless", harness.LOSSLESS), ("default", DEFAULT)]:
        found, report = train(tmp_path / name, kind, policy=policy, schedule="random:3", **fake_device.LATE)
        assert found["faults"] == 0 and found["waits"] == plain[kind]["waits"]
        if name == "lossless":
            assert found == plain[kind]
        rows = derived(report)
        assert (source in rows) == (is_exact or name == "default"), report["ops"]
        if source in rows:
            assert rows[source]["count"] >= 16, rows[source]
            assert rows[source]["stored_bytes"] <= rows[source]["raw_bytes"] / 8, rows[source]


@pytest.mark.parametrize("kind", ["gelu by hand", "gelu by hand under autocast"])
def test_all_of_gelu_by_hand_is_derived_from_its_input(kind, tmp_path):
    _, report = train(tmp_path, kind, policy=harness.LOSSLESS, schedule="lazy")
    # Of its input, or of tanh's result, which is derived itself.
    sources = ("derived from aten::pow self", "derived from aten::tanh result")
    found = {(row["op"], row["operand"]) for row in report["ops"] if row["codec"] in sources and row["count"] >= 24}
    wanted = {("aten::tanh", "result"), ("aten::mul", "self"), ("aten::mul", "other"), ("aten::addmm", "mat1")}
    assert found == wanted, report["ops"]


def test_dropout_is_derived_from_its_mask(tmp_path):
    _, report = train(tmp_path, "dropout", policy=harness.LOSSLESS, schedule="lazy")
    counts = {(row["op"], row["codec"]): row["count"] for row in report["ops"] if row["operand"] == "mat1"}
    # Both linear layers of three blocks, in twelve steps.
    assert counts["aten::addmm", "derived from aten::native_layer_norm input"] >= 24, counts
    assert counts["aten::addmm", "derived from aten::gelu self"] >= 24, counts


def test_the_guard_measures_what_is_derived(tmp_path):
    """Errors as large as the CPU's, within what another draw of random numbers does."""
    policy = DEFAULT | {"guard": {"every_steps": 1}}
    worst = {}
    for device in ("cpu", "cuda"):
        options = {"schedule": "random:4", **fake_device.LATE} if device == "cuda" else {}
        found, report = train(tmp_path / device, "convolutions", device, policy, **options)
        assert found["faults"] == 0
        (row,) = derived(report).values()
        assert row["guard_checks"] >= 2 and row["worst_gradient_error"] > 0
        worst[device] = row["worst_relative_error"]
    assert worst["cuda"] == pytest.approx(worst["cpu"], rel=0.2)


def test_a_rescue_derives(tmp_path):
    """Nothing is encoded until memory runs out, in forward and then in backward, which computes."""
    needed = json.loads(fake_device.start(["-c", programs.BIG], tmp_path / "plain").stdout)
    policy = harness.LOSSLESS | {"raw_window": 1000}
    options = {"memory": needed["peak"] // 2, "schedule": "random:5", "poison": True}
    run = fake_device.start(["-c", programs.BIG], tmp_path / "short", policy=policy, **options)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues"] > 0 and derived(run.report)["native_batch_norm"]["count"] > 20


# Both ways between two streams: a source's stream is not that of the node that reads what is derived.
STREAMS = """
import time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
first, second = torch.cuda.Stream(), torch.cuda.Stream()
pairs = [(nn.LayerNorm(64).cuda(), nn.Linear(64, 64).cuda()) for _ in range(4)]
gradients = []
for step in range(8):
    value = torch.randn(48, 64, device="cuda", requires_grad=True) * 2
    for i, (norm, linear) in enumerate(pairs):
        one, other = (first, second) if i % 2 else (second, first)
        one.wait_stream(torch.cuda.current_stream() if i == 0 else other)
        with torch.cuda.stream(one):
            value = nn.functional.gelu(norm(value))
        other.wait_stream(one)
        with torch.cuda.stream(other):
            value = linear(value)
    torch.cuda.current_stream().wait_stream(other)
    weights = [linear.weight for _, linear in pairs]
    gradients += torch.autograd.grad(value.square().mean(), weights)
    with torch.no_grad():
        for norm, _ in pairs:  # what recipes read are copies
            norm.weight.mul_(1.1)
print([g.view(torch.int32).long().sum().item() for g in gradients])
time.sleep(0.2)  # the engine's thread may still be dropping the graph, for which it wants the interpreter
"""


@pytest.mark.parametrize("stream", ["current", "side"])
@pytest.mark.parametrize("schedule", ["lazy", "random:1", "random:2", "random:3"])
def test_values_are_read_on_other_streams_than_their_sources(stream, schedule, tmp_path):
    expected = fake_device.start(["-c", STREAMS], tmp_path / "plain").stdout
    policy = harness.LOSSLESS | {"stream": stream}
    run = fake_device.start(["-c", STREAMS], tmp_path / "cinch", policy=policy, schedule=schedule, **fake_device.LATE)
    assert run.stdout == expected
    assert derived(run.report)["native_layer_norm"]["count"] >= 8


@pytest.mark.parametrize(
    "kind",
    [pytest.param([], id="flash", marks=pytest.mark.quick), pytest.param(["efficient"], id="efficient"),
     pytest.param(["keeps"], id="the program keeps keys")],
)  # fmt: skip
@pytest.mark.parametrize(("schedule", "stream", "fake"), SCHEDULES)
def test_attention_is_that_of_the_operands_that_backward_gets(kind, schedule, stream, fake, tmp_path):
    """Output and log-sum-exp, as in test_attention.py; whatever the order of the work."""
    program = [harness.HERE / "policies/attention_gradients.py", "cuda", "bfloat16", *kind]
    run = fake_device.start(program, tmp_path, policy=DEFAULT | {"stream": stream}, schedule=schedule, **fake)
    rows = [row for row in run.report["ops"] if "_scaled_dot_product" in row["op"]]
    parts = {row["operand"]: row["count"] for row in rows if row["codec"].startswith("derived from")}
    assert len(parts) == 2 and min(parts.values()) >= 12, rows
    assert float(run.stdout) < 0.2


def mean_error(folder, function, type_name, policy=harness.TWO_BITS, **options):
    """Of a gradient, by mean_gradient.py, as it prints it."""
    program = [harness.HERE / "policies/mean_gradient.py", "cuda", function, type_name]
    run = fake_device.start(program, folder, policy=policy, **options)
    assert sum(row["count"] for row in derived(run.report).values()) >= 36
    return run.stdout


@pytest.mark.parametrize("type_name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("function", ["gelu", "silu", "gated"])
def test_smooth_functions_of_approximations_have_no_bias(function, type_name, tmp_path):
    """As on the CPU: without the correction 2 bits make a gradient a fifth larger. Whatever the order of the work, and
    where the steps lie on the host."""
    found = mean_error(tmp_path / "eager", function, type_name)
    assert abs(float(found)) < 0.03
    offloaded = harness.TWO_BITS | {"stream": "side"} | fake_device.OFFLOAD
    assert mean_error(tmp_path / "late", function, type_name, offloaded, schedule="random:6", **fake_device.LATE) == found


@fake_device.engine_needed
@pytest.mark.parametrize("function", ["gelu", "gated"])
def test_the_kernel_has_the_same_bits(function, tmp_path):
    found = mean_error(tmp_path / "fake", function, "bfloat16")
    assert mean_error(tmp_path / "engine", function, "bfloat16", codecs=fake_device.ENGINE) == found


CAPTURED = """
import time
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
torch.backends.cudnn.enabled = False
block = lambda: [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()]
model = nn.Sequential(*block(), *block(), *block(), nn.Flatten(), nn.LayerNorm(256), nn.Linear(256, 64), nn.GELU(),
                      nn.Linear(64, 8)).cuda()
for norm in model[1], model[4], model[7], model[10]:
    nn.init.uniform_(norm.weight, 0.5, 1.5)  # a new norm's weights would prove nothing
weights = list(model.parameters())
x = torch.randn(8, 4, 8, 8, device="cuda")
forward = lambda: model(x).square().sum()
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(6):
        torch.autograd.grad(forward(), weights)
    loss = forward()
    expected = [g.clone() for g in torch.autograd.grad(loss, weights, retain_graph=True)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = torch.autograd.grad(loss, weights, retain_graph=True)
    with torch.no_grad():
        for bias in weights[1::2]:
            bias.detach().mul_(2)  # of which only recipes read, copies
    for _ in range(3):
        for gradient in found:
            gradient.zero_()
        torch.autograd.grad(forward(), weights)
        graph.replay()
        torch.cuda.synchronize()
        print(all(torch.equal(a, b) for a, b in zip(found, expected)))
del loss
time.sleep(0.2)  # the engine's thread may still be dropping the graph, for which it wants the interpreter
"""


@pytest.mark.parametrize("stream", ["current", "side"])
@pytest.mark.parametrize("kind", ["lossless", "lossy", "lossy, offloaded"])
def test_a_graph_computes_them_at_each_replay(kind, stream, tmp_path):
    policy = (harness.LOSSLESS if kind == "lossless" else harness.TWO_BITS) | {"stream": stream, "guard": {"every_steps": 0}}
    if "offloaded" in kind:
        policy |= fake_device.OFFLOAD
    run = fake_device.start(["-c", CAPTURED], tmp_path, policy=policy, schedule="random:7", event_delay=2, poison=True)
    assert run.stdout.split() == ["True"] * 3
    sources = {"native_layer_norm", "gelu"} | ({"native_batch_norm"} if kind == "lossless" else set())
    assert derived(run.report).keys() >= sources


@pytest.fixture(scope="module")
def workloads(tmp_path_factory):
    """What test_derived.py runs on the CPU: plainly, and with a window and the side stream, where sources are raw
    for longer."""
    import torch

    policy = harness.LOSSLESS | {"stream": "side", "raw_window": 0.5}
    found = []
    for name, each, fake in [("plain", None, {}), ("cinch", policy, {"schedule": "random:5", **fake_device.LATE})]:
        folder = tmp_path_factory.mktemp(name)
        output = folder / "outcomes.pt"
        program = [harness.HERE / "child.py", "derived", output]
        run = fake_device.start(program, folder, policy=each, extra={"E2E_DEVICE": "cuda", "OMP_NUM_THREADS": "1"}, **fake)
        saved = torch.load(output, weights_only=True, map_location="cpu")
        found.append(harness.Workloads(run, {name: harness.Outcome(**outcome) for name, outcome in saved.items()}))
    return harness.Pair(*found)


@pytest.mark.parametrize("name", registry.load("derived"))
def test_same_bits(workloads, name):
    workloads.check(name, takes=None)


@pytest.mark.parametrize("source", ["native_batch_norm", "native_group_norm", "native_layer_norm", "gelu", "silu", "mul"])
def test_is_derived(workloads, source):
    rows = [row for row in workloads.cinch.run.report["ops"] if row["codec"].startswith(f"derived from aten::{source} ")]
    assert sum(row["count"] for row in rows) >= 2
    assert all(row["stored_bytes"] < row["raw_bytes"] / 2 for row in rows)


def test_recipes_compute_what_pytorch_does(workloads):
    """But for the 2048 elements that two of them change behind autograd's back."""
    refused = [event for event in workloads.cinch.run.report["events"] if event["kind"] == "derivation"]
    assert {event["detail"].split(":")[0] for event in refused} == {"2048 elements"}, refused


PICKED = {
    "messages_along_edges": ("aten::mul", "aten::tanh result"),
    "messages_by_indexing": ("aten::mul", "aten::tanh result"),
    "messages_of_what_nobody_saves": ("aten::mul", "what an index picks of"),
    "the_rows_change_after_what_is_picked_is_saved": ("aten::addmm", "what an index picks of"),
    "counted_from_the_end": ("aten::addmm", "aten::native_layer_norm input"),
    "in_two_dimensions": ("aten::addmm", "aten::silu self"),
    "along_the_second_dimension": ("aten::mm", "aten::native_layer_norm input"),
    "experts_tokens": ("aten::addmm", "aten::native_layer_norm input"),
    "the_index_changes_in_place": ("aten::addmm", "aten::tanh result"),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_an_index_picks_is_derived(name, tmp_path):
    program = [harness.HERE / "child.py", "derived", tmp_path / "outcomes.pt", name]
    run = fake_device.start(program, tmp_path, policy=harness.LOSSLESS, extra={"E2E_DEVICE": "cuda", "OMP_NUM_THREADS": "1"})
    op, source = PICKED[name]
    found = {(row["op"], row["codec"]): row["count"] for row in run.report["ops"]}
    assert found.get((op, f"derived from {source}"), 0) >= 2, found


GATED = """
import json
import torch
from workloads.models import clamped_gate
torch.set_num_threads(1)
torch.manual_seed(0)
w, v = (torch.randn(*sizes, device="cuda", requires_grad=True) for sizes in [(64, 256), (128, 64)])
x = torch.randn(256, 64, device="cuda")

for step in range(8):
    w.grad = v.grad = None
    (clamped_gate(x @ w) @ v).square().mean().backward()
    torch.cuda.synchronize()
print(json.dumps([each.grad.double().sum().item().hex() for each in (w, v)]))
"""


@fake_device.engine_needed
def test_approximated_values_keep_their_sides_of_bounds(tmp_path):
    """Bit for bit as on the host's codecs; without loss they are plain's."""
    plain = fake_device.start(["-c", GATED], tmp_path / "plain").stdout
    found = {}
    for policy in "lossless", "default":
        for codecs in "fakecuda", fake_device.ENGINE:
            settings = {"version": 1, "policy": policy, "raw_window": 0, "stream": "side"}
            run = fake_device.start(
                ["-c", GATED], tmp_path / policy / codecs, policy=settings, codecs=codecs, schedule="random:3",
                **fake_device.LATE,
            )  # fmt: skip
            found[policy, codecs] = run.stdout
            rows = {(row["op"], row["operand"], row["codec"]): row["count"] for row in run.report["ops"]}
            codec = "exponent_pack" if policy == "lossless" else "group_quant 4-bit + sides of bounds"
            assert rows["aten::clamp", "self", codec] >= 3, rows
    assert found["lossless", "fakecuda"] == found["lossless", fake_device.ENGINE] == plain
    assert found["default", "fakecuda"] == found["default", fake_device.ENGINE] != plain
