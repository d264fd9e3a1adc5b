# SPDX-License-Identifier: Apache-2.0
"""Program of test_cuda.py: trains the models of workloads.zoo on a device and prints what came out.

    cuda_zoo.py DEVICE STEPS with-dropout|no-dropout MODEL…
"""

import json
import sys

import torch

from workloads import zoo

device, steps, dropout, names = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
torch.set_num_threads(1)
# The fake runtime has neither cuDNN nor fused attention; the CPU shall use the same operators.
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
if device == "cuda":
    import fakecuda

    control = fakecuda.control()


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif hasattr(module, "drop_prob"):
            module.drop_prob = 0.0
    return model


def train(name: str) -> dict:
    torch.manual_seed(0)
    model, batch, loss_of = getattr(zoo, name)()
    if dropout == "no-dropout":
        model = without_dropout(model)
    model, batch = model.to(device).train(), batch.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    losses, before = [], None
    for step in range(steps):
        if device == "cuda" and step == steps // 2:
            before = control.host_syncs(), control.used(0)
        optimizer.zero_grad()
        output = model(batch)
        with torch.device(device):  # where labels are made
            loss = loss_of(output, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    figures = {}
    if device == "cuda":
        figures["host_syncs"] = control.host_syncs() - before[0]
        figures["growth"] = control.used(0) - before[1]
        figures["faults"] = control.faults()
    figures["losses"] = [loss.item() for loss in losses]
    figures["parameters"] = [p.detach().cpu().double().sum().item() for p in model.parameters()]
    return figures


print(json.dumps({name: train(name) for name in names}))
