# SPDX-License-Identifier: Apache-2.0
"""What the operators of random programs may be applied to, and how operands are chosen."""

import random
from typing import Any, Callable

import torch

Suits = Callable[[torch.Tensor], bool]
Choice = tuple[list[int], dict[str, Any]]
"""Numbers of the operands, and the operator's parameters."""


class Values:
    """The values of a program that is being made, by number."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.by_number: dict[int, torch.Tensor] = {}
        self.weights: dict[int, list[int]] = {}
        """Sizes of the trained weights. Their numbers are below 0."""
        self.named: list[int] = []
        """Those that an instruction may pick: the program has a name for them."""
        self.changeable: set[int] = set()
        """Those of them that may be changed in place."""

    def pick(self, suits: Suits) -> int | None:
        """One of those that have a name; later ones more often."""
        found = [number for number in self.named if suits(self.by_number[number])]
        return found[-1 - min(int(self.rng.expovariate(0.4)), len(found) - 1)] if found else None

    def beside(self, number: int) -> int:
        """A value that broadcasts to the sizes of that one; it itself if there is no other."""
        sizes = self.by_number[number].shape

        def suits(x):
            return x.dim() <= len(sizes) and all(a in (1, b) for a, b in zip(reversed(x.shape), reversed(sizes)))

        other = self.pick(suits)
        return number if other is None else other

    def weight(self, *sizes: int) -> int:
        """A trained weight of these sizes: at times one that another layer has already."""
        same = [number for number, of in self.weights.items() if of == list(sizes)]
        if same and self.rng.random() < 0.3:
            return self.rng.choice(same)
        number = -1 - len(self.weights)
        self.weights[number] = list(sizes)
        self.by_number[number] = torch.full(sizes, 0.5)
        return number


def one(suits: Suits = lambda x: True, **parameters):
    """Chooses an operand. A parameter is a function of the random numbers and the operand."""

    def choose(values: Values):
        number = values.pick(suits)
        if number is None:
            return None
        return [number], {name: of(values.rng, values.by_number[number]) for name, of in parameters.items()}

    return choose


def two(values: Values):
    number = values.pick(lambda x: True)
    return None if number is None else ([number, values.beside(number)], {})


def with_weights(suits: Suits, *sizes_of: Callable[[torch.Tensor], list[int]]):
    """Chooses an operand, and weights of sizes that depend on it."""

    def choose(values: Values):
        number = values.pick(suits)
        if number is None:
            return None
        x = values.by_number[number]
        return [number, *[values.weight(*sizes(x)) for sizes in sizes_of]], {}

    return choose


def some_dim(rng, x):
    return rng.randrange(x.dim())


def any_of(*numbers):
    return lambda rng, x: rng.choice(numbers)


def not_scalar(x):
    return x.dim() > 0


def at_least_2d(x):
    return x.dim() >= 2


def at_least_3d(x):
    return x.dim() >= 3


def wide(x):
    return x.dim() > 0 and x.shape[-1] >= 8


def small(x):
    return 0 < x.dim() and x.numel() < 5000


def by_eight(x):
    return x.dim() in (2, 3) and x.shape[-1] % 8 == 0


def even(x):
    return wide(x) and x.shape[-1] % 2 == 0


def rows(x):
    return x.dim() > 0 and x.shape[0] >= 2 and x.numel() < 20000


def matrix(x):
    """What a layer over rows takes."""
    return x.dim() >= 2 and x.dtype == torch.float32 and x.shape[-1] >= 4


def matrices(x):
    return matrix(x) and x.dim() == 3


def samples(x):
    return matrix(x) and x.dim() == 2 and len(x) > 1


def few_rows(x):
    return x.dim() == 2 and len(x) <= 64 and x.dtype != torch.bfloat16


def few_columns(x):
    return x.dim() == 3 and x.shape[1] <= 64


def image(x):
    return x.dim() == 4 and x.shape[2] >= 4 and x.shape[3] >= 4


def float_image(x):
    return image(x) and x.dtype == torch.float32


def four_groups(x):
    return float_image(x) and x.shape[1] % 4 == 0


def small_float_image(x):
    return float_image(x) and small_image(x)


def small_image(x):
    return image(x) and x.numel() < 10000


def attended(x):
    return x.dim() in (3, 4) and x.shape[-2] <= 64 and x.dtype != torch.float64


def width(x):
    return [x.shape[-1]]


def channels(x):
    return [x.shape[1]]


# Of operators in place.
def changeable(values: Values):
    found = [number for number in values.named if number in values.changeable]
    return ([values.rng.choice(found)], {}) if found else None


def changeable_and_another(values: Values):
    chosen = changeable(values)
    if chosen is None:
        return None
    [number], _ = chosen
    other = values.beside(number)
    return None if other == number else ([number, other], {})
