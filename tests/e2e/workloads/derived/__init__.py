# SPDX-License-Identifier: Apache-2.0
"""Programs whose saved tensors follow from others: outputs of norms and activations. What is derived must have the bits
that PyTorch computed, whatever the program does to sources, constants and graphs."""

from workloads.derived import arithmetic, assumed, changes, gathers, networks, resized, transformers  # noqa: F401 - they register workloads
