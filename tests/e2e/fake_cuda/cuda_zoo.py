# SPDX-License-Identifier: Apache-2.0
"""Program of zoo_models.py: trains the models of workloads.zoo on a device and prints what came out.

    cuda_zoo.py DEVICE STEPS with-dropout|no-dropout SCHEDULE,… MODEL…

All of them under each schedule of the fake runtime in turn, since starting a process takes longer than that.
On the CPU schedules only count: what a policy's random numbers are depends on what came before.
"""

import json
import sys

import torch

from workloads import zoo

device, steps, dropout, schedules, names = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]
torch.set_num_threads(1)
# The fake runtime has neither cuDNN nor fused attention; the CPU shall use the same operators.
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cuda.enable_mem_efficient_sdp(False)
if device == "cuda":
    import fakecuda

    control = fakecuda.control()


class LSTMByHand(zoo.LanguageLSTM):
    """LanguageLSTM in operators that both devices have: nn.LSTM has one of its own on CUDA."""

    def forward(self, x):
        x = self.embedding(x)
        for layer in range(self.cells.num_layers):
            kinds = "weight_ih", "weight_hh", "bias_ih", "bias_hh"
            x = self.layer(x, *(getattr(self.cells, f"{kind}_l{layer}") for kind in kinds))
        return self.head(x)

    @staticmethod
    def layer(x, weight_ih, weight_hh, bias_ih, bias_hh):
        gates_of_x = torch.nn.functional.linear(x, weight_ih, bias_ih)
        hidden = cell = x.new_zeros(x.shape[0], x.shape[2])
        outputs = []
        for gates in gates_of_x.unbind(1):
            i, f, g, o = (gates + torch.nn.functional.linear(hidden, weight_hh, bias_hh)).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        return torch.stack(outputs, 1)


def lstm_by_hand():
    _, batch, loss_of = zoo.lstm()
    return LSTMByHand(), batch, loss_of


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        elif hasattr(module, "drop_prob"):
            module.drop_prob = 0.0
    return model


def train(name: str) -> dict:
    torch.manual_seed(0)
    model, batch, loss_of = lstm_by_hand() if name == "lstm_by_hand" else getattr(zoo, name)()
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


def train_all(schedule: str) -> dict:
    if device == "cuda":
        control.schedule(schedule)
    return {name: train(name) for name in names}


print(json.dumps([train_all(schedule) for schedule in schedules.split(",")]))
