# SPDX-License-Identifier: Apache-2.0
"""The core's rooms know only those before them (docs/design.md, "Rooms")."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ["process", "program", "stash", "gradients", "outside", "autograd"]
AUTOGRAD = ["nodes", "held", "recognising"]
STASH = ["device", "saved", "figures", "entry", "on_device", "recipes"]
STASH += ["lists", "planning", "adapting", "ahead", "holding"]
HOUSES = {"hooks/torch": CORE, "hooks/torch/autograd": AUTOGRAD, "hooks/torch/stash": STASH}


@pytest.mark.parametrize(("house", "rooms"), HOUSES.items())
def test_each_room_includes_only_rooms_before_it(house, rooms):
    # Files beside the rooms know them all.
    assert sorted(path.name for path in (ROOT / house).iterdir() if path.is_dir()) == sorted(rooms)
    included = re.compile(rf'#include "{house}/(?:(\w+)/)?[\w/]+\.h"')
    for place, room in enumerate(rooms):
        files = [path for path in (ROOT / house / room).rglob("*") if path.suffix in (".h", ".cpp")]
        assert files
        for path in files:
            others = {other or "files beside the rooms" for other in included.findall(path.read_text())}
            later = others - set(rooms[: place + 1])
            assert not later, f"{path.relative_to(ROOT)} includes {later}"
