# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin of scripts/torch-conformance: test sources of another torch can be collected.

One name that the torch at hand no longer has would otherwise cost a whole file. Such a name becomes a
function that skips the test that calls it, or that it decorates, and an empty list to whoever takes it for
one; a module of torch's that is no longer there becomes one of such names.
"""

import importlib
import re
import sys
import types
import unittest

import pytest

MISSING_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
MISSING_MODULE = re.compile(r"No module named '(torch\.[\w.]+)'")

importing = False


class StandIn(list):
    """Of a list of cases there are none, so that it is empty."""

    def __init__(self, name: str, module: str):
        self.reason = f"the torch at hand has no {module}.{name}"

    def __call__(self, *arguments, **options):
        if not importing:
            raise unittest.SkipTest(self.reason)
        # A decorator, with or without arguments of its own.
        if len(arguments) == 1 and callable(arguments[0]) and not options:
            return unittest.skip(self.reason)(arguments[0])
        return unittest.skip(self.reason)


def add_module(name: str):
    def stand_in_of(attribute: str):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return StandIn(attribute, name)

    module = types.ModuleType(name)
    module.__getattr__ = stand_in_of
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    setattr(importlib.import_module(parent), last, module)


def import_file(collector):
    global importing
    given = set()
    importing = True
    try:
        while True:
            try:
                collector.obj  # imports the file
                return
            except collector.CollectError as error:
                name = MISSING_NAME.search(str(error))
                module = MISSING_MODULE.search(str(error))
            found = name or module
            if found is None or found.groups() in given:
                return  # pytest reports it
            given.add(found.groups())
            if name is not None:
                setattr(importlib.import_module(name[2]), name[1], StandIn(name[1], name[2]))
            else:
                add_module(module[1])
    finally:
        importing = False


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector):
    if isinstance(collector, pytest.Module):
        import_file(collector)
