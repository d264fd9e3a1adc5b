# SPDX-License-Identifier: Apache-2.0
"""Random programs (random_programs/): under a lossless policy the same bits and the same errors; under others the same
errors, and nothing stays in the stash."""

import json
import sys

import pytest

import fake_device
import harness

QUICK, LONG = range(0, 30), range(1000, 1150)
EXACT = {"": {}, "side": {"stream": "side"}, "window": {"raw_window": 0.5}}
OTHERS = {
    "default": harness.preset("default"), "default, side": harness.preset("default") | {"stream": "side"},
    "division": harness.preset("division") | {"guard": {"every_steps": 1}}, "blpa": harness.preset("blpa"),
    "actnn": harness.preset("actnn"), "acgc": {"version": 1, "policy": "acgc", "min_bytes": 0, "acgc": {"every_steps": 1}},
    "comet": {"version": 1, "policy": "comet", "min_bytes": 0, "comet": {"every_steps": 1}},
    "budget": {"version": 1, "policy": "budget", "min_bytes": 0, "budget": {"ratio": 6, "every_steps": 1}},
}  # fmt: skip
# Work of the device that runs late and in any order, and events that say so late.
LATE = {"schedule": "random:7", "event_delay": 2, "poison": True}

quick_and_long = pytest.mark.parametrize(
    "numbers", [pytest.param(QUICK, marks=pytest.mark.quick, id="quick"), pytest.param(LONG, id="long")]
)


def outcomes(run: harness.Run) -> dict[int, dict]:
    return {line["number"]: line for line in map(json.loads, run.stdout.splitlines())}


def train(numbers: range, folder, policy=None, device="cpu", **fake) -> dict[int, dict]:
    """What each program computed, and the errors that PyTorch raised."""
    arguments = ["-m", "random_programs", numbers.start, len(numbers)]
    extra = {"OMP_NUM_THREADS": "1", "E2E_DEVICE": device}
    if device == "cuda":
        return outcomes(fake_device.start(arguments, folder, device, policy, extra=extra, says=..., **fake))
    beside = ()
    if policy is not None and policy.get("stream") == "side":
        beside, extra["E2E_SLOW_US"] = (harness.SLOW_THREAD,), "100"
    return outcomes(harness.run_python(arguments, folder, policy, extra, beside))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What programs compute without Cinch, by their numbers and the device."""
    known = {}

    def get(numbers, device="cpu"):
        if (numbers, device) not in known:
            known[numbers, device] = train(numbers, tmp_path_factory.mktemp("plain"), device=device)
        return known[numbers, device]

    return get


def check(under: dict[int, dict], plain: dict[int, dict], same_bits: bool):
    assert under.keys() == plain.keys()
    what = ("steps", "errors") if same_bits else ("errors",)
    different = [number for number in plain if any(under[number][each] != plain[number][each] for each in what)]
    assert not different, f"these programs differ: {different} (python -m random_programs --show NUMBER)"
    assert [number for number in under if under[number]["stash_bytes"] != 0] == []


@quick_and_long
@pytest.mark.parametrize("kind", EXACT)
def test_same_bits(plain, tmp_path, numbers, kind):
    check(train(numbers, tmp_path, harness.LOSSLESS | EXACT[kind]), plain(numbers), same_bits=True)


@quick_and_long
@pytest.mark.parametrize("policy", OTHERS)
def test_same_errors(plain, tmp_path, numbers, policy):
    check(train(numbers, tmp_path, OTHERS[policy]), plain(numbers), same_bits=False)


@fake_device.needed
@quick_and_long
@pytest.mark.parametrize("fake", [{}, LATE], ids=["eager", "late"])
def test_same_bits_on_a_device(plain, tmp_path, numbers, fake):
    numbers = numbers[: len(numbers) // 2]
    check(train(numbers, tmp_path, harness.LOSSLESS, "cuda", **fake), plain(numbers, "cuda"), same_bits=True)


@fake_device.needed
@quick_and_long
def test_same_errors_on_a_device(plain, tmp_path, numbers):
    numbers = numbers[: len(numbers) // 2]
    check(train(numbers, tmp_path, harness.preset("default"), "cuda", **LATE), plain(numbers, "cuda"), same_bits=False)
