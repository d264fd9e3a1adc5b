# SPDX-License-Identifier: Apache-2.0
"""The CUDA engine itself, as nvcc compiled it, under unmodified training on "cuda" tensors: its launches go through
the fake runtime, which counts them and refuses some."""

import json

import pytest

import harness
import test_cuda as cuda

ENGINE = "fakecuda_engine"
pytestmark = pytest.mark.skipif(
    not (harness.BUILD / "lib" / ENGINE).is_dir(), reason="this build has no nvcc, or no fake CUDA runtime"
)

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


@pytest.mark.parametrize("stream", ["current", "side"])
def test_a_refused_launch_changes_nothing(stream, tmp_path):
    policy = cuda.LOSSLESS | {"stream": stream}
    run = cuda.start(
        ["-c", REFUSING], tmp_path, policy=policy, codecs=ENGINE, poison=True, fail="cudaLaunchKernel:7:701"
    )
    refused, launches, again, different, faults = json.loads(run.stdout)
    assert refused and again > launches / 2 > 10, "it goes on encoding"
    assert different == [] and faults == 0
    held_by = {row["codec"] for row in run.report["ops"]}
    assert {"exponent_pack", "window_index"} <= held_by


CALLS = """
import json
import torch, fakecuda
from torch import nn
torch.set_num_threads(1)
control = fakecuda.control()
model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU())]).cuda()
x = torch.randn(64, 64, device="cuda")
calls = ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventQuery", "cudaFuncGetAttributes")
for step in range(10):
    before = [control.calls(call) for call in calls]
    for parameter in model.parameters():
        parameter.grad = None
    model(x).square().mean().backward()
    counts = [control.calls(call) - count for call, count in zip(calls, before)]
print(json.dumps(counts))
"""


def test_an_entry_whose_size_only_the_data_decide_takes_few_calls(tmp_path):
    """Encoding takes two launches, decoding one. The size comes without a copy, a zeroing, or an event, and then
    one copy shrinks what was encoded."""
    policy = {**cuda.LOSSLESS, "derive": {"enabled": False}}
    run = cuda.start(["-c", CALLS], tmp_path, policy=policy, codecs=ENGINE, poison=True)
    launches, copies, recorded, queried, loaded = json.loads(run.stdout)
    (entries,) = {row["count"] // 10 for row in run.report["ops"] if "gelu" in row["op"]}
    assert all(row["codec"] == "exponent_pack" for row in run.report["ops"]) and entries == 8
    entries += entries - 1  # the outputs that the next layer reads
    assert launches <= 3 * entries and copies <= entries
    assert recorded == queried == loaded == 0
