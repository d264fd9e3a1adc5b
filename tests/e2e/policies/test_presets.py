# SPDX-License-Identifier: Apache-2.0
"""The presets default and division: what they may approximate, what they may not, and what they report."""

import pytest
import torch

import harness
from workloads import registry

EXACT = [
    "sign_and_mask_operators",
    "pooling_operators",
    "first_step_of_a_convolutional_net",
    "first_step_of_a_transformer",
]
APPROXIMATE = ["gradient_of_a_convolutional_net", "gradient_of_a_transformer"]
TRAININGS = ["training_of_a_convolutional_net", "training_of_a_transformer"]


@pytest.fixture(scope="module", params=["default", "division"])
def pair(request, tmp_path_factory):
    return harness.run_pair("approximate", tmp_path_factory.mktemp(request.param), request.param)


@pytest.mark.parametrize("name", EXACT)
def test_exact(pair, name):
    pair.check(name)


def test_statistics_and_indices_are_exact(pair):
    pair.check("statistics_and_indices", takes=None)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_gradient_is_close(pair, name):
    plain, cinch = (side.outcomes[name].values["gradient"] for side in (pair.plain, pair.cinch))
    assert torch.nn.functional.cosine_similarity(plain, cinch, dim=0) > 0.9
    assert not torch.equal(plain, cinch), "nothing was approximated"


@pytest.mark.parametrize("name", TRAININGS)
def test_training_learns(pair, name):
    plain, cinch = (side.outcomes[name].values["losses"] for side in (pair.plain, pair.cinch))
    assert cinch[0] == plain[0]
    assert cinch[-1] < 0.7 * cinch[0]


@pytest.mark.parametrize("name", registry.load("approximate"))
def test_nothing_stays(pair, name):
    assert pair.cinch.outcomes[name].stash_bytes == 0


def test_silent(pair):
    pair.check_silence()


PROGRAM = """
import torch
from workloads.models import ConvNet, cross_entropy
torch.manual_seed(0)
model, x = ConvNet(), torch.randn(16, 3, 64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    optimizer.zero_grad()
    cross_entropy()(model(x)).backward()
    optimizer.step()
"""


def test_report(tmp_path):
    """Every promised field is there, and the numbers agree with each other and with the program."""
    report = harness.run_python(["-c", PROGRAM], tmp_path, "division").report
    assert report["version"] == 1
    assert report["active"] is True and report["inactive_reason"] == ""
    assert report["policy"] == "division"
    assert report["torch_version"].startswith(torch.__version__.split("+")[0].rsplit(".", 1)[0])
    assert report["steps"] == 4
    assert report["stash_bytes_at_exit"] == 0
    assert report["raw_bytes_at_peak"] > report["stored_bytes_at_peak"] > 0
    assert report["ratio"] == pytest.approx(report["raw_bytes_at_peak"] / report["stored_bytes_at_peak"], rel=1e-3)
    assert report["peak_rss_bytes"] > report["rss_bytes_at_start"] > 0
    assert report["seconds_in_cinch"] > 0
    reasons = report["passed_through"]
    assert reasons == sorted(reasons, key=lambda entry: -entry["bytes"])
    assert all(entry["reason"] and entry["count"] > 0 for entry in reasons)
    for op in report["ops"]:
        assert op.keys() >= {"op", "operand", "count", "raw_bytes", "stored_bytes", "codec"}
    # A plane of 64 x 64 takes 2.26 bits an element of 32; the stem's ReLU output is read by max-pool
    # only, which does not look at its values; the residual one is a convolution's input too.
    ratios = {(op["op"], op["codec"]): op["raw_bytes"] / op["stored_bytes"] for op in report["ops"]}
    assert ratios["aten::native_batch_norm", "division 2-bit"] > 13
    assert ratios["aten::relu_", "sign"] == 32
    assert ratios["aten::convolution", "division 2-bit + sign"] > 9
    assert ratios["aten::max_pool2d_with_indices", "window_index"] > 30


PACKAGES_ATTENTION = """
import torch
forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

class FlashAttnFunc(torch.autograd.Function):  # as flash-attn has it, but for its kernels
    @staticmethod
    def forward(ctx, q, k, v):
        out, lse = forward(q, k, v, 0.0, True)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        return backward(grad, *ctx.saved_tensors, 0.0, True)

torch.manual_seed(0)
layer = torch.nn.Linear(64, 192).bfloat16()
for _ in range(4):
    parts = layer(torch.randn(4, 128, 64).bfloat16()).chunk(3, -1)
    y = FlashAttnFunc.apply(*(part.unflatten(-1, (4, 16)).transpose(1, 2).contiguous() for part in parts))
    y.float().square().mean().backward()
    assert layer.weight.grad.isfinite().all()
"""


def test_attention_of_other_packages_is_held_in_8_bits(tmp_path):
    policy = {"version": 1, "policy": "default", "raw_window": 0}
    report = harness.run_python(["-c", PACKAGES_ATTENTION], tmp_path, policy).report
    ops = [op for op in report["ops"] if op["op"] == "FlashAttnFunc"]
    by_codec = {op["codec"]: op["count"] for op in ops}
    assert by_codec.get("group_quant 8-bit dithered", 0) >= 12, ops
    assert by_codec.get("exponent_pack", 0) >= 3, ops  # log-sum-exp


# The Functions of other packages by their names, with what these save, but for their kernels: Liger Kernel's, Unsloth's
# and Megatron's.
PACKAGES_FUNCTIONS = """
import torch
from torch.nn.functional import gelu, silu

def recomputed(name, saves, forward):
    # Saves what `saves` makes of the arguments, and differentiates `forward` of them.
    def apply(ctx, *arguments):
        ctx.shapes = [a.shape for a in arguments]
        ctx.save_for_backward(*saves(*arguments))
        return forward(*arguments)
    def differentiate(ctx, grad):
        given = [a.reshape(s).detach().requires_grad_() for a, s in zip(ctx.saved_tensors, ctx.shapes)]
        with torch.enable_grad():
            return torch.autograd.grad(forward(*given), given, grad)
    return type(name, (torch.autograd.Function,), {"forward": staticmethod(apply), "backward": staticmethod(differentiate)})

rows = lambda x: x.reshape(-1, x.shape[-1])
norm = lambda x, w: x * x.square().mean(-1, keepdim=True).add(1e-6).rsqrt() * w
adapted = lambda x, a, b: x @ a @ b
LigerRMSNormFunction = recomputed("LigerRMSNormFunction", lambda x, w: (rows(x), w, rows(x).square().mean(-1)), norm)
LigerSiLUMulFunction = recomputed("LigerSiLUMulFunction", lambda a, b: (rows(a), rows(b)), lambda a, b: silu(a) * b)
Fast_RMS_Layernorm = recomputed("Fast_RMS_Layernorm", lambda x, w: (rows(x), w, rows(x).square().mean(-1)), norm)
LoRA_W = recomputed("LoRA_W", lambda x, a, b: (x, a, b), adapted)
SwiGLUFunction = recomputed("SwiGLUFunction", lambda x: (rows(x),), lambda x: silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1])
GeLUFunction = recomputed("GeLUFunction", lambda x: (x,), gelu)

torch.manual_seed(0)
layers = [torch.nn.Linear(64, 128, bias=False) for _ in range(4)]
w, a, b = torch.ones(128, requires_grad=True), torch.randn(128, 64).requires_grad_(), torch.randn(64, 64).requires_grad_()
def loss():
    x = LigerRMSNormFunction.apply(layers[0](torch.randn(32, 64, 64)), w)
    x = LigerSiLUMulFunction.apply(x * 2, x * 3)
    x = Fast_RMS_Layernorm.apply(x * 1.5, w)
    x = LoRA_W.apply(x * 2, a * 0.1, b * 0.1)
    x = GeLUFunction.apply(layers[1](x))
    x = SwiGLUFunction.apply(layers[2](x[..., :64]))
    return layers[3](x).square().mean()
for _ in range(4):
    loss().backward()
    assert layers[0].weight.grad.isfinite().all()
"""


def test_activations_that_other_packages_functions_save_are_held_in_few_bits(tmp_path):
    """Statistics, one number a row, and matrices of adapters stay exact."""
    policy = {"version": 1, "policy": "default", "raw_window": 0}
    report = harness.run_python(["-c", PACKAGES_FUNCTIONS], tmp_path, policy).report
    found = {}
    for row in report["ops"]:
        found.setdefault(row["op"], {})[row["codec"]] = row["count"]
    four = "group_quant 4-bit dithered"
    for name in "LigerRMSNormFunction", "LigerSiLUMulFunction", "Fast_RMS_Layernorm", "LoRA_W", "SwiGLUFunction":
        assert found[name].get(four, 0) >= 3, found
    assert found["GeLUFunction"].get("group_quant 3-bit dithered", 0) >= 3, found
    assert found["LigerRMSNormFunction"].get("exponent_pack", 0) >= 3, found
    assert found["Fast_RMS_Layernorm"].get("exponent_pack", 0) >= 3, found
    assert found["LoRA_W"].get("exponent_pack", 0) >= 6, found


FLOORED = """
import sys
import torch
import torch.nn.functional as F
torch.manual_seed(0)
first, last = torch.nn.Linear(64, 256), torch.nn.Linear(256, 8)
x = torch.randn(64, 64)
found = {}
uses = {
    "gelu": lambda h: F.gelu(h),
    "another function": lambda h: F.silu(h),
    "another reader": lambda h: F.gelu(h) + h.sigmoid() * h,
    "another recipe": lambda h: F.gelu(h) + h,
}
for step in range(8):
    for name, use in uses.items():
        h = first(x) * 6
        y = use(h)
        node = y.grad_fn if name in ("gelu", "another function") else y.grad_fn.next_functions[0][0]
        loss, least = last(y).sum(), h.min().item()
        del h, y  # what the program owns is not encoded
        loss = loss.square() + first(x).exp().sin().sum()  # nor what was saved last
        found[name] = (least, node._saved_self.min().item())
        loss.backward()
torch.save(found, sys.argv[1])
"""


def test_what_is_below_gelus_floor_counts_as_it_unless_something_else_reads_it(tmp_path):
    harness.run_python(["-c", FLOORED, tmp_path / "found.pt"], tmp_path, harness.preset("default"))
    found = torch.load(tmp_path / "found.pt")
    assert all(least < -9 for least, _ in found.values())
    assert -4.5 < found.pop("gelu")[1] < -2.9
    assert all(held < -8 for _, held in found.values()), found
