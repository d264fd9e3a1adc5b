# SPDX-License-Identifier: Apache-2.0
import os


def pytest_configure(config):
    config.addinivalue_line("markers", "quick: what scripts/test runs of a module that takes long")


def says_when_work_runs(function) -> bool:
    """Whether a test names the fake CUDA runtime's schedule, as far as its code shows."""
    code = function.__code__
    words = " ".join(map(str, (*code.co_names, *code.co_varnames, *code.co_consts)))
    return any(word in words for word in ("schedule", "eager", "lazy", "random:", "orders_of_events"))


def pytest_collection_modifyitems(config, items):
    """Where another schedule is the default, leaves out the tests that do the same there as everywhere."""
    if "FAKECUDA_DEFAULT_SCHEDULE" not in os.environ:
        return
    same = [item for item in items if says_when_work_runs(item.function)]
    config.hook.pytest_deselected(items=same)
    items[:] = [item for item in items if item not in same]
