# SPDX-License-Identifier: Apache-2.0
"""A loss of whatever a model returns."""

import torch


def mean_square(outputs) -> torch.Tensor:
    """The sum of the mean squares of all tensors of floats in `outputs`, however nested."""
    if torch.is_tensor(outputs):
        return outputs.float().square().mean() if outputs.is_floating_point() else 0
    if hasattr(outputs, "values"):
        outputs = outputs.values()
    return sum(mean_square(each) for each in outputs if each is not None)
