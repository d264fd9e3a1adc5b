# SPDX-License-Identifier: Apache-2.0
"""What several modules' tests compare with."""

import json

import pytest

import programs
import zoo_models
from fake_device import DIVISION, start


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    """What programs.BIG computes and the memory that it takes, without Cinch."""
    return json.loads(start(["-c", programs.BIG], tmp_path_factory.mktemp("needed")).stdout)


@pytest.fixture(scope="module")
def plain_zoo(tmp_path_factory):
    return zoo_models.train(tmp_path_factory.mktemp("plain"), zoo_models.MODELS, ["eager"])[0][0]


@pytest.fixture(scope="module")
def divided_zoo(tmp_path_factory):
    """On the CPU, two rounds."""
    folder = tmp_path_factory.mktemp("cpu")
    return zoo_models.train(folder, zoo_models.SAME_OPERATORS, ["", ""], "cpu", DIVISION, dropout="no-dropout")[0]
