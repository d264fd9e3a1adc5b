# SPDX-License-Identifier: Apache-2.0
"""Saved tensors in 4 or 2 bits an element, as a user of PyTorch alone would write it: hooks made of torch operators."""

from typing import NamedTuple

import torch
import torch.nn.functional as F

GROUP = 256
# Smaller tensors stay as they are. In the study's models that leaves out what ruins training when it is quantized and
# would save little: the statistics of norms, and attention's log-sum-exp.
LEAST_ELEMENTS = 1 << 16


class Packed(NamedTuple):
    codes: torch.Tensor
    low: torch.Tensor
    scale: torch.Tensor
    shape: torch.Size
    dtype: torch.dtype


class Quantizer:
    """`pack` and `unpack` for torch.autograd.graph.saved_tensors_hooks. Unbiased: rounding is stochastic."""

    def __init__(self, parameters, bits: int):
        self.bits = bits
        self.parameters = {p.untyped_storage().data_ptr() for p in parameters}
        self.generator = torch.Generator().manual_seed(0)  # the program's own random numbers stay as they were

    def pack(self, tensor):
        if not tensor.is_floating_point() or tensor.numel() < LEAST_ELEMENTS:
            return tensor
        if tensor.untyped_storage().data_ptr() in self.parameters:
            return tensor
        flat = tensor.detach().reshape(-1).float()
        groups = F.pad(flat, (0, -flat.numel() % GROUP)).view(-1, GROUP)
        low, high = groups.aminmax(dim=1, keepdim=True)
        scale = ((high - low) / (2**self.bits - 1)).clamp_min(1e-30)
        codes = torch.rand(groups.shape, generator=self.generator).add_((groups - low).div_(scale))
        codes = codes.clamp_(0, 2**self.bits - 1).to(torch.uint8)
        parts = codes.view(-1, 8 // self.bits).unbind(1)
        packed = parts[0].clone()
        for place, part in enumerate(parts[1:], 1):
            packed |= part << place * self.bits
        return Packed(packed, low, scale, tensor.shape, tensor.dtype)

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        parts = [packed.codes >> place & 2**self.bits - 1 for place in range(0, 8, self.bits)]
        groups = (torch.stack(parts, dim=1).view(-1, GROUP) * packed.scale).add_(packed.low)
        return groups.view(-1)[: packed.shape.numel()].view(packed.shape).to(packed.dtype)
