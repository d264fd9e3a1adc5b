# SPDX-License-Identifier: Apache-2.0
"""Streams, events and graphs of the program and of Cinch, on the fake runtime: in whatever order work is done, nothing is
read too early or too late, and what the program does with them is left alone."""

import pytest

import fake_device
import harness
from fake_device import CINCHS, KEPT, OFFLOAD, PYTORCHS, start
from programs import CAPTURED_BACKWARD, orders_of_events

pytestmark = fake_device.needed

RAW = {"match": {"op": "*"}, "codec": {"name": "raw"}}


def some_orders(quick_stream):
    """Orders and streams; a few orders on one stream are quick."""
    quick = pytest.param(60, quick_stream, marks=pytest.mark.quick)
    return pytest.mark.parametrize("orders, stream", [quick, (1000, "current"), (1000, "side")])


@some_orders("current")
def test_orders_of_events(stream, orders, tmp_path):
    orders_of_events(tmp_path, orders, harness.LOSSLESS | {"stream": stream, "rules": [RAW]})


@some_orders("side")
def test_orders_of_events_with_offload(stream, orders, tmp_path):
    kept = {"match": {"op": "aten::gelu"}, "keep": True}
    run = orders_of_events(tmp_path, orders, harness.LOSSLESS | OFFLOAD | {"stream": stream, "rules": [kept, RAW]})
    assert run.report["offloads"] > orders


CAPTURE = """
import torch
torch.backends.cudnn.enabled = False
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
x = torch.randn(32, 64, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).sum().backward()
graph.replay()
print("captured")
"""


@pytest.mark.quick
def test_graph_capture_is_left_alone(tmp_path):
    run = start(["-c", CAPTURE], tmp_path, policy=harness.LOSSLESS)
    assert run.stdout.strip() == "captured"
    declined = {row["reason"]: row["count"] for row in run.report["passed_through"]}
    assert declined["while a CUDA graph is captured"] > 0


@pytest.mark.parametrize("stream", ["current", "side"])
@pytest.mark.parametrize("offload", [{}, OFFLOAD], ids=["on device", "offload"])
def test_a_backward_is_captured_whose_forward_was_not(stream, offload, tmp_path):
    policy = harness.LOSSLESS | {"rules": [RAW], "stream": stream, "raw_window": 0} | offload
    run = start(["-c", CAPTURED_BACKWARD], tmp_path, policy=policy, schedule="lazy", event_delay=2, poison=True)
    assert run.stdout.split() == ["True"] * 3
    assert any(row["codec"] == "raw" for row in run.report["ops"])
    assert not offload or run.report["offloads"] > 0


BESIDE_A_CAPTURE = """
import threading
import torch
torch.backends.cudnn.enabled = False
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
x = torch.randn(256, 256, device="cuda")
graph, captures, trained = torch.cuda.CUDAGraph(), threading.Event(), threading.Event()

def capture():
    with torch.cuda.graph(graph, capture_error_mode="global"):
        torch.sin(x, out=captured)
        captures.set()
        trained.wait()

captured = torch.zeros_like(x)
torch.sin(x)
thread = threading.Thread(target=capture)
thread.start()
captures.wait()
value = x
for _ in range(8):
    value = torch.relu(value @ weight)
value.sum().backward()
trained.set()
thread.join()
graph.replay()
print(torch.equal(captured, torch.sin(x)))
"""


def test_page_locked_memory_is_taken_beside_another_threads_capture(tmp_path):
    run = start(["-c", BESIDE_A_CAPTURE], tmp_path, policy=KEPT | OFFLOAD)
    assert run.stdout.strip() == "True"
    assert run.report["offloads"] > 0 and run.report["reserved_pinned_bytes"] > 0


EVENTS = """
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())]).cuda()
x = torch.randn(128, 64, device="cuda")
counts = []
for step in range(36):
    calls = ("cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventRecord")
    before = [control.calls(call) for call in calls]
    model(x).square().mean().backward()
    counts.append([control.calls(call) - count for call, count in zip(calls, before)])
print(*[sum(each) for each in zip(*counts[-6:])])
"""


# Eagerly: where events lag, more are in use at once, and the pool fills for longer.
@pytest.mark.parametrize("policy", [{}, OFFLOAD], ids=["on device", "offload"])
def test_events_are_used_again(policy, tmp_path):
    on_side = harness.LOSSLESS | {"stream": "side"}
    run = start(["-c", EVENTS], tmp_path, policy=on_side | policy, schedule="eager", event_delay=0, poison=True)
    made, destroyed, recorded = map(int, run.stdout.split())
    assert destroyed == 0 and made < recorded / 50 > 4


# The program makes streams itself, as other libraries do, and destroys them: after it has computed gradients on one,
# after a forward whose graph stays and comes to nothing, and when all that is left is a tensor. Of a tensor whose use
# on a stream is recorded, PyTorch itself uses the stream when it is freed; there is none here.
DESTROYED_STREAMS = """
import ctypes, json
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
cuda = ctypes.CDLL("libcuda.so.1")
torch.manual_seed(0)
layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]
model = nn.Sequential(*layers).cuda()
x = torch.randn(512, 64, device="cuda")
losses, kept = [], []
# Else autograd would make these nodes on the first stream that it comes by, and go on to use that stream.
nodes = [p.view_as(p).grad_fn.next_functions[0][0] for p in model.parameters()]

def forward():
    return model(x).square().mean()

def on_a_stream_of_its_own(work):
    handle = ctypes.c_void_p()
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    stream = torch.cuda.ExternalStream(handle.value)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = work()
    torch.cuda.current_stream().wait_stream(stream)
    assert cuda.cudaStreamDestroy(handle) == 0
    return result

def step():
    loss = forward()
    loss.backward()
    return loss.detach()

def gradients():
    return sum(g.double().sum() for g in torch.autograd.grad(forward(), list(model.parameters())))

for _ in range(4):
    losses.append(on_a_stream_of_its_own(gradients))
    unread = on_a_stream_of_its_own(forward)
    kept.append(on_a_stream_of_its_own(lambda: forward().detach() * 2))
    losses.append(step())
    del unread
    large = [torch.full((1 << 20,), 1.0, device="cuda") for _ in range(6)]
    large.append(torch.zeros(7 << 20, device="cuda"))
    losses.append(step())
    del large
    torch.cuda.empty_cache()
    kept.append(on_a_stream_of_its_own(lambda: losses[-1] * 3))
torch.cuda.synchronize()
torch.cuda.empty_cache()
found = [value.item() for value in losses + kept] + [p.grad.double().sum().item() for p in model.parameters()]
print(json.dumps(found))
print(control.faults())
"""


@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"raw_window": 0}, marks=pytest.mark.quick),
        {"stream": "side"},
        OFFLOAD | {"stream": "side"},
        OFFLOAD | {"rules": [{"match": {"op": "*"}, "keep": True}]},
    ],
    ids=["current", "side", "offload", "kept"],
)
def test_streams_that_the_program_destroys_are_not_used_again(policy, allocator, tmp_path):
    options = {"memory": 160 << 20, "poison": True}
    plain = start(["-c", DESTROYED_STREAMS], tmp_path / "plain", **options).stdout.split("\n")
    assert plain[1] == "0"
    for schedule in "lazy", "random:3":
        run = start(["-c", DESTROYED_STREAMS], tmp_path / schedule[:4], policy=harness.LOSSLESS | policy | allocator,
                    schedule=schedule, **options)  # fmt: skip
        assert run.stdout.split("\n")[:2] == [plain[0], "0"], schedule


OF_POOLS = """
import sys
import torch, fakecuda
control = fakecuda.control()
pool = [torch.cuda.Stream() for _ in range(32)]
created = control.calls("cudaStreamCreateWithPriority")
control.trace(sys.argv[1])
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
value = torch.randn(256, 256, device="cuda")
for _ in range(6):
    value = torch.relu(value @ weight)
value.sum().backward()
torch.cuda.synchronize()
control.trace(None)
print(control.calls("cudaStreamCreateWithPriority") - created, *[hex(stream.cuda_stream) for stream in pool])
"""


def test_streams_of_pytorchs_pool_are_left_to_the_program(tmp_path):
    trace = tmp_path / "trace"
    run = start(["-c", OF_POOLS, trace], tmp_path / "run", policy=KEPT | OFFLOAD | {"stream": "side"})
    created, *pool = run.stdout.split()
    assert run.report["offloads"] > 0 and created == "2", "one each way"
    text = trace.read_text()
    assert "cudaStreamCreateWithPriority 1 0\n" in text, "without a wait for the default stream, and of low priority"
    assert not [stream for stream in pool if stream in text]
