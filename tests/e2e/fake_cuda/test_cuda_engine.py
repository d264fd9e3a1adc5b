# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine itself, as nvcc compiled it, under unmodified training on "cuda" tensors: its launches go through
the fake runtime, which counts them and refuses some."""

import json

import pytest

import fake_device
import harness
from fake_device import ENGINE

pytestmark = fake_device.engine_needed

MODEL = """
import json, sys
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
torch.set_num_threads(1)
control = fakecuda.control()
torch.manual_seed(0)
layers = [nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
layers += [nn.Flatten(), nn.Linear(256, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)]
for norm in layers[1], layers[7]:
    nn.init.normal_(norm.weight)  # a new norm's weights would prove nothing
model = nn.Sequential(*layers).cuda()
x, y = torch.randn(8, 3, 16, 16, device="cuda"), torch.arange(8, device="cuda")

def step():
    for parameter in model.parameters():
        parameter.grad = None
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return [loss.item().hex(), *(p.grad.double().sum().item().hex() for p in model.parameters())]
"""

# Of a step's launches each fails once, alone, and some with all that follow. What fails must neither be the program's
# error nor change a bit.
REFUSING = (
    MODEL
    + """
expected = step()
refused = control.calls("cudaLaunchKernel") >= 7  # and so the seventh was
for _ in range(4):  # until all is derived that can be
    step()
launches = control.calls("cudaLaunchKernel")
step()
launches = control.calls("cudaLaunchKernel") - launches
different = []
for first, last in [(n, n) for n in range(1, launches + 1)] + [(n, 500) for n in range(1, launches, 7)]:
    for nth in range(first, last + 1):
        control.fail("cudaLaunchKernel", nth, 701)
    before = control.calls("cudaLaunchKernel")
    found = step()
    control.stop_failing()
    torch.cuda.synchronize()
    if found != expected or control.calls("cudaLaunchKernel") - before < first:
        different.append([first, last])
again = control.calls("cudaLaunchKernel")
step()
again = control.calls("cudaLaunchKernel") - again
print(json.dumps([refused, launches, again, different, control.faults()]))
"""
)


@pytest.mark.quick
@pytest.mark.parametrize("stream", ["current", "side"])
def test_a_refused_launch_changes_nothing(stream, tmp_path):
    policy = harness.LOSSLESS | {"stream": stream}
    run = fake_device.start(
        ["-c", REFUSING], tmp_path, policy=policy, codecs=ENGINE, poison=True, fail="cudaLaunchKernel:7:701"
    )
    refused, launches, again, different, faults = json.loads(run.stdout)
    assert refused and again > launches / 2 > 10, "it goes on encoding"
    assert different == [] and faults == 0
    held_by = {row["codec"] for row in run.report["ops"]}
    assert {"exponent_pack", "window_index"} <= held_by


# Nearly all of a step's launches are encodings and decodings; one computes GELU without its bias.
REFUSED_FUNCTION = (
    MODEL
    + """
for _ in range(6):
    expected = step()
launches = control.calls("cudaLaunchKernel")
step()
launches = control.calls("cudaLaunchKernel") - launches
worst = 0
for nth in range(1, launches + 1):
    control.fail("cudaLaunchKernel", nth, 701)
    found = step()
    control.stop_failing()
    torch.cuda.synchronize()
    loss, before = float.fromhex(found[0]), float.fromhex(expected[0])
    worst = max(worst, abs(loss / before - 1))
    assert all(abs(float.fromhex(each)) < 1e3 for each in found)
print(json.dumps([launches, worst, control.faults()]))
"""
)


def test_a_function_whose_kernel_is_refused_is_pytorchs(tmp_path):
    run = fake_device.start(["-c", REFUSED_FUNCTION], tmp_path, policy=harness.TWO_BITS, codecs=ENGINE, poison=True)
    launches, worst, faults = json.loads(run.stdout)
    assert launches > 5 and worst == 0 and faults == 0
    assert any(row["codec"] == "derived from aten::gelu self" for row in run.report["ops"])


TRAINING = MODEL + "print(json.dumps([step() for _ in range(3)]))"
# Without derivation, which begins when the device has proved it: then what is encoded is the same at any speed.
STORED = {"version": 1, "min_bytes": 0, "raw_window": 0, "derive": {"enabled": False}}


@pytest.mark.parametrize("blocks", ["1", "4"], ids=["blocks in turn", "blocks at once"])
@pytest.mark.parametrize(
    "policy, stream",
    [pytest.param("default", "side", marks=pytest.mark.quick), ("division", "current"), ("blpa", "side")],
)
def test_trains_to_the_bits_of_the_hosts_codecs(policy, stream, blocks, tmp_path):
    """Whatever the order of the streams' work, and of one kernel's blocks (tests/cuda_on_host)."""
    outcomes = []
    for codecs in "fakecuda", ENGINE:
        run = fake_device.start(
            ["-c", TRAINING], tmp_path / codecs, policy=STORED | {"policy": policy, "stream": stream}, codecs=codecs,
            extra={"CUDA_ON_HOST_BLOCK_THREADS": blocks}, schedule="random:3", event_delay=2, poison=True,
        )  # fmt: skip
        assert len({row["codec"] for row in run.report["ops"]} - {"kept"}) > 1
        outcomes.append(json.loads(run.stdout))
    assert outcomes[0] == outcomes[1]
