# SPDX-License-Identifier: Apache-2.0
"""Random programs: which instructions they have, by the number that they are made from."""

import dataclasses
import random
from typing import Any

import torch

from random_programs.operands import Values
from random_programs.operators import DRAW_NUMBERS, LEAVE_OPERANDS, LEAVE_RESULTS, OPERATORS
from random_programs.regions import REGIONS
from random_programs.training import BACKWARDS

SHAPES = [
    (8, 24, 16), (32, 64), (4, 8, 12, 12), (2, 16, 8, 8), (6, 32, 32), (2000, 16), (3, 4, 64, 64), (128,), (2, 4, 16, 8),
]  # fmt: skip
LENGTHS = [12, 25, 40]
MOST_ELEMENTS = 60000


@dataclasses.dataclass
class Instruction:
    result: int
    operator: str
    operands: list[int]
    """Of weights below 0."""
    parameters: dict[str, Any]
    region: int | None
    drops: list[int] = dataclasses.field(default_factory=list)
    """Values that the program lets go of after it."""

    def __str__(self):
        said = [f"v{each}" if each >= 0 else f"w{-each}" for each in self.operands]
        said += [f"{name}={value}" for name, value in self.parameters.items()]
        dropped = "; del " + ", ".join(f"v{each}" for each in self.drops) if self.drops else ""
        region = "" if self.region is None else f"  # region {self.region}"
        return f"v{self.result} = {self.operator}({', '.join(said)}){dropped}{region}"


@dataclasses.dataclass
class Program:
    seed: int
    inputs: list[tuple[int, ...]]
    """Sizes of the first values."""
    weights: dict[int, list[int]]
    """Sizes, by number."""
    instructions: list[Instruction]
    regions: list[str]
    """Instructions that follow each other may be in one: a name of REGIONS."""
    backward: str
    """A name of BACKWARDS."""

    def __str__(self):
        lines = [f"# program {self.seed}, backward: {self.backward}"]
        lines += [f"v{number} = input{list(sizes)}" for number, sizes in enumerate(self.inputs)]
        lines += [f"w{-number} = weight{sizes}" for number, sizes in self.weights.items()]
        lines += [f"# region {number}: {kind}" for number, kind in enumerate(self.regions)]
        return "\n".join([*lines, *map(str, self.instructions)])

    def without(self, result: int) -> "Program":
        """The program without the instruction of that result, and without all that needs it."""
        gone, kept = {result}, []
        for each in self.instructions:
            if each.result in gone or gone & set(each.operands):
                gone.add(each.result)
            else:
                kept.append(each)
        return dataclasses.replace(self, instructions=kept)

    def without_random_numbers(self) -> "Program":
        program = self
        for each in self.instructions:
            if each.operator in DRAW_NUMBERS:
                program = program.without(each.result)
        return program


class Maker:
    """Makes one program. It computes with values of one number to learn their sizes and types."""

    def __init__(self, seed: int):
        self.rng = rng = random.Random(seed)
        inputs = rng.sample(SHAPES, rng.choice([1, 1, 2]))
        self.program = Program(seed, inputs, {}, [], [], "")
        self.values = Values(rng)
        self.values.by_number = {number: torch.full(sizes, 0.5) for number, sizes in enumerate(inputs)}
        self.values.named = list(self.values.by_number)
        self.changes_in_place = rng.random() < 0.5
        # One that changes what backward needs: PyTorch refuses that, and with Cinch in the same words.
        self.is_careless = self.changes_in_place and rng.random() < 0.25

    def make(self) -> Program:
        program, rng = self.program, self.rng
        length, region, region_ends = rng.choice(LENGTHS), None, 0
        while len(program.instructions) < length:
            if region is None and rng.random() < 0.04:
                region, region_ends = len(program.regions), len(program.instructions) + rng.choice([2, 4, 6])
                program.regions.append(rng.choice([kind for kind in REGIONS if kind is not None]))
            elif region is not None and len(program.instructions) >= region_ends:
                region = None
            self.add_instruction(region)
        program.weights = self.values.weights
        weights = [weight for weight, _ in BACKWARDS.values()]
        [program.backward] = rng.choices(list(BACKWARDS), weights)
        self.drop()
        return program

    def add_instruction(self, region: int | None):
        """Adds one, if the operator that comes up suits."""
        [name] = self.rng.choices(list(OPERATORS), [each.weight for each in OPERATORS.values()])
        operator, values = OPERATORS[name], self.values
        may_change = self.changes_in_place and (region is None or self.program.regions[region] == "autocast")
        if operator.in_place and not may_change:
            return
        chosen = operator.choose(values)
        if chosen is None:
            return
        operands, parameters = chosen
        with torch.no_grad():
            result = operator.apply(*[values.by_number[number].clone() for number in operands], **parameters)
        if not 0 < result.numel() <= MOST_ELEMENTS or result.dim() > 4:
            return
        number = len(self.program.inputs) + len(self.program.instructions)
        self.program.instructions.append(Instruction(number, name, operands, parameters, region))
        values.by_number[number] = result
        values.named.append(number)
        if operator.in_place:
            values.named.remove(operands[0])
            values.changeable.discard(operands[0])
        if self.is_careless or name in LEAVE_RESULTS:
            values.changeable.add(number)
        if not self.is_careless and name not in LEAVE_OPERANDS:
            values.changeable -= set(operands)

    def drop(self):
        """Has the program let go of most values when it last uses them."""
        last_use = {number: each for each in self.program.instructions for number in each.operands if number >= 0}
        for number, instruction in last_use.items():
            if self.rng.random() < 0.8:
                instruction.drops.append(number)


def make(seed: int) -> Program:
    return Maker(seed).make()
