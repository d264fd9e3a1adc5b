# SPDX-License-Identifier: Apache-2.0
"""Program of test_cuda.py: trains the models of workloads.zoo on a device and prints what came out.

    cuda_zoo.py DEVICE STEPS MODEL…
"""

import json
import sys

import torch

from workloads import zoo

device, steps, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
if device == "cuda":
    import fakecuda

    # The fake runtime has neither cuDNN nor fused attention.
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    control = fakecuda.control()


def train(name: str) -> dict:
    torch.manual_seed(0)
    model, batch, loss_of = getattr(zoo, name)()
    model, batch = model.to(device).train(), batch.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses, figures = [], {}
    for step in range(steps):
        if device == "cuda" and step == steps // 2:
            figures["syncs_before"], figures["used_before"] = control.host_syncs(), control.used(0)
        optimizer.zero_grad()
        # Labels are made on the CPU.
        output = model(batch)
        loss = on_device(loss_of, output, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if device == "cuda":
        figures |= {
            "syncs": control.host_syncs() - figures.pop("syncs_before"),
            "growth": control.used(0) - figures.pop("used_before"),
            "faults": control.faults(),
        }
    return figures | {
        "losses": [loss.item() for loss in losses],
        "parameters": [p.detach().cpu().double().sum().item() for p in model.parameters()],
    }


def on_device(loss_of, output, step):
    with torch.device(device):
        return loss_of(output, step)


print(json.dumps({name: train(name) for name in names}))
