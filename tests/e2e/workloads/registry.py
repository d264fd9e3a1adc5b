# SPDX-License-Identifier: Apache-2.0
"""Workloads by the module, or folder of modules, that defines them."""

import collections
import importlib
from typing import Callable

_workloads: dict[str, dict[str, Callable[[], dict]]] = collections.defaultdict(dict)


def workload(function):
    """Registers a function that returns name → tensor, number or text. It must be deterministic and
    must not keep a graph alive once it has returned."""
    module = function.__module__.split(".")[1]
    assert function.__name__ not in _workloads[module]
    _workloads[module][function.__name__] = function
    return function


def load(module: str) -> dict[str, Callable[[], dict]]:
    """The workloads of workloads/`module`.py, or of the folder of that name."""
    importlib.import_module(f"workloads.{module}")
    return _workloads[module]
