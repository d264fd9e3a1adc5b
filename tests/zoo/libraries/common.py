# SPDX-License-Identifier: Apache-2.0
"""What the modules of several libraries need: which models are small, sizes by name, a loss of any output."""

import torch

MOST_PARAMETERS = 60e6


def parameters_of(make) -> int:
    """How many the model has that `make()` makes, without memory for them."""
    with torch.device("meta"):
        return sum(p.numel() for p in make().parameters())


def smallest_of_each(names: list[str], family_of, make, most: float = MOST_PARAMETERS) -> list[str]:
    """The smallest model of each family, of those with fewer than `most` parameters that need no memory to be made."""
    smallest = {}
    for name in names:
        try:
            size = parameters_of(lambda: make(name))
        except Exception:
            continue
        smallest[family_of(name)] = min(smallest.get(family_of(name), (size, name)), (size, name))
    return [name for size, name in smallest.values() if size < most]


def by_name(table: dict) -> dict:
    """{name: value} of {"name name …": value}."""
    return {name: value for names, value in table.items() for name in names.split()}


def mean_square(outputs) -> torch.Tensor:
    """The sum of the mean squares of all tensors of floats in `outputs`, however nested."""
    if torch.is_tensor(outputs):
        return outputs.float().square().mean() if outputs.is_floating_point() else 0
    if hasattr(outputs, "values"):
        outputs = outputs.values()
    return sum(mean_square(each) for each in outputs if each is not None)
