# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin of scripts/torch-conformance: test sources of another torch can be collected.

One name that the torch at hand no longer has would otherwise cost a whole file. Such a name becomes a
function that skips the test that calls it.
"""

import importlib
import re
import unittest

import pytest

MISSING = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def stand_in(name: str, module: str):
    def missing(*_, **__):
        raise unittest.SkipTest(f"the torch at hand has no {module}.{name}")

    return missing


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector):
    if not isinstance(collector, pytest.Module):
        return
    given = set()
    while True:
        try:
            collector.obj  # imports the file
            return
        except collector.CollectError as error:
            found = MISSING.search(str(error))
            if found is None or found.groups() in given:
                return  # pytest reports it
        given.add(found.groups())
        name, module = found.groups()
        setattr(importlib.import_module(module), name, stand_in(name, module))
