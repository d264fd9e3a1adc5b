# SPDX-License-Identifier: Apache-2.0
"""Trains a random program, and tells what it computed."""

import gc
import hashlib
import re
import threading

import torch

import live
from random_programs.operators import OPERATORS
from random_programs.regions import REGIONS


def digest(tensors: list[torch.Tensor | None]) -> str:
    """Which NaN an operator gives depends on where its operands lie in memory: all count as one."""
    bits = hashlib.sha256()
    for tensor in tensors:
        if tensor is not None:
            values = tensor.detach().cpu().flatten().clone()
            values[values.isnan()] = torch.nan
            bits.update(values.view(torch.uint8).numpy().tobytes())
        bits.update(b"next")
    return bits.hexdigest()[:16]


def text_of(error: Exception) -> str:
    """Without the node that made a modified tensor, which may be named otherwise with Cinch (docs/design.md)."""
    return re.sub(r", which is output \d+ of [\w:]+,", "", str(error).split(" Hint:")[0])


def stash_bytes() -> int | None:
    """What is in the stash when all that was computed is gone."""
    # PyTorch keeps the graph of a backward that failed until the thread's next one begins.
    torch.zeros(1, requires_grad=True).sum().backward()
    gc.collect()
    return live.stash_bytes_in_the_end()


class Training:
    def __init__(self, program, device: str):
        self.program = program
        self.device = device
        self.errors: list[str] = []
        self.numbers = torch.Generator().manual_seed(program.seed)
        self.weights = {
            number: (torch.randn(sizes, generator=self.numbers) * 0.5 + 0.5).to(device).requires_grad_()
            for number, sizes in program.weights.items()
        }
        # So that something of each input is trained, too.
        self.shifts = [torch.zeros(sizes, device=device).requires_grad_() for sizes in program.inputs]

    @property
    def trained(self) -> list[torch.Tensor]:
        return [*self.weights.values(), *self.shifts]

    def train(self, steps: int = 5) -> dict[str, list[str]]:
        """Digests of each step's loss and gradients, and the errors that PyTorch raised."""
        digests = []
        backward = BACKWARDS[self.program.backward][1]
        for step in range(steps):
            torch.manual_seed(self.program.seed + step)
            try:
                results = backward(self, step)
                digests.append(digest([*results, *[each.grad for each in self.trained]]))
            except (RuntimeError, MemoryError) as error:
                self.errors.append(text_of(error))
                digests.append("error")
                for each in self.trained:
                    each.grad = None  # which of them there are may depend on PyTorch's threads
            with torch.no_grad():
                for each in self.trained:
                    if each.grad is not None:
                        each -= 0.01 * each.grad.clamp(-1, 1)
                        each.grad = None
        return {"steps": digests, "errors": self.errors}

    def loss(self) -> torch.Tensor:
        """Of all that the program has a name for at its end."""
        env: dict[int, torch.Tensor] = dict(self.weights)
        for number, shift in enumerate(self.shifts):
            env[number] = torch.randn(shift.shape, generator=self.numbers).to(self.device) + shift
        left = self.program.instructions
        while left:
            region = left[0].region
            count = next((i for i, each in enumerate(left) if each.region != region), len(left))
            kind = None if region is None else self.program.regions[region]
            REGIONS[kind](left[:count], env, self.device, self.execute)
            left = left[count:]
        results = [x for number, x in env.items() if number >= len(self.program.inputs) and x.requires_grad]
        return sum((x.float() * 1.5).sin().mean() for x in results) + sum(each.sum() for each in self.shifts) * 1e-3

    def execute(self, instructions, env: dict[int, torch.Tensor]):
        for each in instructions:
            operator = OPERATORS[each.operator]
            try:
                env[each.result] = operator.apply(*[env[number] for number in each.operands], **each.parameters)
            except RuntimeError as error:
                if not operator.in_place:
                    raise
                # A leaf, or one of several views: PyTorch refuses to change it.
                self.errors.append(text_of(error))
                env[each.result] = env[each.operands[0]]
            if operator.in_place:
                env.pop(each.operands[0], None)
            for number in each.drops:
                env.pop(number, None)


# Ways to compute the gradients. Each gives what else there is to compare.


def plain(training: Training, step: int):
    loss = training.loss()
    loss.backward()
    return [loss]


def twice(training: Training, step: int):
    loss = training.loss()
    loss.backward(retain_graph=True)
    loss.backward()
    return [loss]


def penalty(training: Training, step: int):
    """With the gradients' size in the loss."""
    loss = training.loss()
    gradients = torch.autograd.grad(loss, training.trained, create_graph=True, allow_unused=True)
    (loss + 0.1 * sum((each**2).mean() for each in gradients if each is not None)).backward()
    return [loss]


def of_gradients(training: Training, step: int):
    """Of a function of gradients; then of the loss, from the same graph."""
    loss = training.loss()
    gradients = torch.autograd.grad(loss, training.shifts, create_graph=True)
    if any(each.requires_grad for each in gradients):
        sum(each.sin().sum() for each in gradients).backward(retain_graph=True)
    loss.backward()
    return [loss, *gradients]


def partial(training: Training, step: int):
    """First no further than to one leaf."""
    loss = training.loss()
    gradients = torch.autograd.grad(loss, training.shifts[:1], retain_graph=True)
    loss.backward()
    return [loss, *gradients]


def two_losses(training: Training, step: int):
    loss = training.loss()
    (loss * 0.5).backward(retain_graph=True)
    (loss**2).backward()
    return [loss]


def two_graphs(training: Training, step: int):
    """As with accumulated gradients, but both forwards come first."""
    first, second = training.loss(), training.loss()
    first.backward()
    second.backward()
    return [first, second]


def in_thread(training: Training, step: int):
    loss = training.loss()
    errors = []

    def work():
        try:
            loss.backward()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return [loss]


def at_times(training: Training, step: int):
    """Every other graph is dropped."""
    return plain(training, step) if step % 2 == 0 else [training.loss()]


BACKWARDS = {
    "plain": (5, plain), "twice": (1, twice), "penalty": (1, penalty), "of gradients": (1, of_gradients),
    "partial": (1, partial), "two losses": (1, two_losses), "two graphs": (1, two_graphs), "in a thread": (1, in_thread),
    "at times": (1, at_times),
}  # fmt: skip
"""How often each is chosen, and the function."""
