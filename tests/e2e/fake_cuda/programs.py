# SPDX-License-Identifier: Apache-2.0
"""Programs that several modules' tests run, or parts of them."""

import harness
from fake_device import start

BIG = """
import json
import torch
from torch import nn
torch.backends.cudnn.enabled = False
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [nn.Conv2d(3, 8, 1)]
for _ in range(30):
    layers += [nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 3, 64, 64, device="cuda"), torch.arange(16, device="cuda") % 10
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({"losses": losses, "peak": torch.cuda.max_memory_reserved()}))
"""

PIPELINE = """
import os
import torch
from torch import nn
import fakecuda
torch.set_num_threads(1)

def layers():
    return [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]

def fork_and_drop(held):
    # As a worker of a DataLoader does that lives through a step: what is held goes in the child, too.
    pid = os.fork()
    if pid == 0:
        held.clear()
        os._exit(0 if torch.ones(1000).sum() == 1000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def gradients(devices):
    torch.manual_seed(0)
    stages = [nn.Sequential(*layers()).to(device) for device in devices]
    for _ in range(3):
        value = torch.randn(128, 64)
        for stage, device in zip(stages, devices):
            value = stage(value.to(device))
        held = [value.square().mean()]
        del value
        if devices[0] != "cpu":
            fork_and_drop(held)
        held[0].backward()
    return [p.grad.cpu() for stage in stages for p in stage.parameters()]

expected = gradients(["cpu"] * 3)
found = gradients(["cuda:0", "cuda:1", "cuda:0"])
print(all(map(torch.equal, found, expected)), fakecuda.control().faults())
"""

SCHEDULES = """
import sys, time
import torch, fakecuda
control = fakecuda.control()
torch.manual_seed(0)
streams = [torch.cuda.Stream() for _ in range(3)]
weights = [torch.randn(32, 32, device="cuda", requires_grad=True) for _ in range(3)]
x = torch.randn(64, 32, device="cuda")

def gradients():
    # Each stage on a stream of its own, as pipelines do; what is handed on is recorded there.
    value = x
    for stream, weight in zip(streams, weights):
        stream.wait_stream(torch.cuda.current_stream())
        value.record_stream(stream)
        with torch.cuda.stream(stream):
            value = torch.nn.functional.gelu(torch.relu(value @ weight) @ weight)
        torch.cuda.current_stream().wait_stream(stream)
    value.record_stream(torch.cuda.current_stream())
    return torch.autograd.grad(value.square().sum(), weights)

expected = [g.cpu() for g in gradients()]
different = []
for seed in range(int(sys.argv[1])):
    control.schedule(f"random:{seed}")
    if any(not torch.equal(a.cpu(), b) for a, b in zip(gradients(), expected)):
        different.append(seed)
print(different, control.faults())
time.sleep(0.2)  # the engine's thread may still be dropping the last graph, for which it wants the interpreter
"""


def orders_of_events(folder, orders, policy) -> harness.Run:
    run = start(["-c", SCHEDULES, orders], folder, policy=policy, poison=True, schedule="lazy")
    assert run.stdout.strip() == "[] 0"
    assert any(row["codec"] == "raw" for row in run.report["ops"])
    return run


CAPTURED_BACKWARD = """
import time
import torch
torch.backends.cudnn.enabled = False
weights = [torch.randn(64, 64, device="cuda", requires_grad=True) for _ in range(2)]
x = torch.randn(32, 64, device="cuda")
stream = torch.cuda.Stream()

def forward():
    value = x
    for weight in weights * 3:
        value = torch.nn.functional.gelu(torch.relu(value @ weight))
    return value.square().sum()

# What other forwards leave, so that what comes next is known.
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(2):
        torch.autograd.grad(forward(), weights)
    loss = forward()
    expected = [g.clone() for g in torch.autograd.grad(loss, weights, retain_graph=True)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = torch.autograd.grad(loss, weights, retain_graph=True)
    for _ in range(3):
        for gradient in found:
            gradient.zero_()
        torch.autograd.grad(forward(), weights)  # of other entries, between replays
        graph.replay()
        torch.cuda.synchronize()
        print(all(torch.equal(a, b) for a, b in zip(found, expected)))
del loss
time.sleep(0.2)  # the engine's thread may still be dropping the graph, for which it wants the interpreter
"""

# A little network for a policy that adapts: what is between the two may add to `features`.
BEGINNING = """
import json, sys
import torch
from torch import nn
torch.backends.cudnn.enabled = False
torch.set_num_threads(1)
torch.manual_seed(0)
device, steps = sys.argv[1], int(sys.argv[2])
features = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
"""

MODEL = """
head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256)]
model = nn.Sequential(*features, nn.BatchNorm2d(16), nn.ReLU(), *head, nn.Linear(256, 8)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 3, 16, 16), torch.arange(16) % 8
x, y = x.to(device), y.to(device)
"""

# The algorithms alone, without the rules of their presets.
UNGUARDED = {"version": 1, "preset_rules": False, "raw_window": 0, "guard": {"every_steps": 0}}
