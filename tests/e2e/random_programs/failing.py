# SPDX-License-Identifier: Apache-2.0
"""Trains programs while single allocations of the core fail."""

import random

from failing_allocations import NEVER, FailingAllocations, says_so

TIMES = 8


def differs(found: dict, right: dict) -> bool:
    """Whether a training differs otherwise than from an error on that says that there was no memory."""
    added = [error for error in found["errors"] if error not in right["errors"]]
    # There may be no memory for all of an error's text.
    if not all(says_so(error) or any(each.startswith(error) for each in right["errors"]) for error in added):
        return True
    first = next((i for i, step in enumerate(found["steps"]) if step != right["steps"][i]), None)
    return first is not None and (not added or found["steps"][first] != "error")


def failures_that_show(allocations: FailingAllocations, train, number: int) -> list[int]:
    """Numbers of allocations without which `train()` computed something else, of TIMES that are tried."""
    allocations.fail(NEVER)
    right = train()
    count = allocations.stop()
    numbers = random.Random(number)
    shown = []
    for _ in range(TIMES):
        failing = numbers.randint(1, max(count, 1))
        allocations.fail(failing)
        found = train()
        allocations.stop()
        if differs(found, right):
            shown.append(failing)
    return shown
