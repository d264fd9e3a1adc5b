# SPDX-License-Identifier: Apache-2.0
"""The models of zoo.py under DistributedDataParallel, in processes that torchrun starts and gloo connects.
Each process has a batch of its own."""

from torch.nn.parallel import DistributedDataParallel

from workloads import zoo
from workloads.process_group import rank


def in_parallel(model):
    # Small buckets, so that there are several.
    return DistributedDataParallel(model, bucket_cap_mb=2)


for precision in zoo.PRECISIONS:
    zoo.register(__name__, precision, wrap=in_parallel, seed=rank)
