# SPDX-License-Identifier: Apache-2.0
"""torch_geometric's GraphSAGE and GIN layers, over graphs of small molecules' like."""

import torch
from data import digits, metric, say, seed
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, SAGEConv, global_add_pool

seed()
images, labels = digits()
corner = torch.arange(64).view(8, 8)
right = torch.stack([corner[:, :-1].flatten(), corner[:, 1:].flatten()])
down = torch.stack([corner[:-1].flatten(), corner[1:].flatten()])
edges = torch.cat([right, right.flip(0), down, down.flip(0)], 1)
place = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8), indexing="ij"), -1).view(64, 2)
graphs = [Data(x=torch.cat([x.view(64, 1), place], 1), edge_index=edges, y=y) for x, y in zip(images, labels)]


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first = SAGEConv(3, width)
        self.second = GINConv(nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()))
        self.third = SAGEConv(width, width, aggr="max")
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, batch):
        x = self.first(batch.x, batch.edge_index).relu()
        x = self.second(x, batch.edge_index)
        x = self.third(x, batch.edge_index).relu()
        return self.head(global_add_pool(x, batch.batch) / 8)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(30):
    some = Batch.from_data_list([graphs[k] for k in torch.randint(1400, (32,)).tolist()])
    loss = nn.functional.cross_entropy(model(some), some.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        say(step, loss)
model.eval()
with torch.no_grad():
    last = Batch.from_data_list(graphs[1400:])
    metric("accuracy", (model(last).argmax(1) == last.y).float().mean())
