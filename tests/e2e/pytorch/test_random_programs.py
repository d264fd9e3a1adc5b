# SPDX-License-Identifier: Apache-2.0
"""Random programs (random_programs/): under a lossless policy the same bits and the same errors; under others the same
errors, and nothing stays in the stash."""

import json
import sys

import pytest

import fake_device
import harness

INJECTOR = harness.BUILD / "lib/libe2e_no_memory.so"
QUICK, LONG = range(0, 20), range(1000, 1040)
# A mask was decoded ahead as values.
FOUND_ON_SIDE = range(21090, 21098)
EXACT = {"current": {}, "side": {"stream": "side"}, "window": {"raw_window": 0.5}}
OTHERS = {
    "default": harness.preset("default"), "default, side": harness.preset("default") | {"stream": "side"},
    "division": harness.preset("division") | {"guard": {"every_steps": 1}}, "blpa": harness.preset("blpa"),
    "actnn": harness.preset("actnn"), "acgc": {"version": 1, "policy": "acgc", "min_bytes": 0, "acgc": {"every_steps": 1}},
    "comet": {"version": 1, "policy": "comet", "min_bytes": 0, "comet": {"every_steps": 1}},
    "budget": {"version": 1, "policy": "budget", "min_bytes": 0, "budget": {"ratio": 6, "every_steps": 1}},
}  # fmt: skip
# "late": work of the device that runs late and in any order, and events that say so late.
SCHEDULES = {"eager": {}, "late": fake_device.LATE | {"schedule": "random:7"}}


def cases(kinds, quick: list):
    """Each with many programs, and those that are `quick` with few, too."""
    few = [pytest.param(QUICK, kind, marks=pytest.mark.quick, id=f"{kind}, few") for kind in quick]
    return pytest.mark.parametrize(("numbers", "kind"), few + [pytest.param(LONG, kind, id=kind) for kind in kinds])


def outcomes(run: harness.Run) -> dict[int, dict]:
    return {line["number"]: line for line in map(json.loads, run.stdout.splitlines())}


def train(numbers: range, folder, policy=None, device="cpu", together=None, dry_run=None, **fake) -> dict[int, dict]:
    """What each program computed, and the errors that PyTorch raised. `together`: so many at a time. `dry_run`: of
    these policies."""
    how = [] if together is None else ["--together", together]
    arguments = ["-m", "random_programs", *how, numbers.start, len(numbers)]
    extra = {"OMP_NUM_THREADS": "1", "E2E_DEVICE": device}
    if dry_run is not None:
        extra["CINCH_DRY_RUN"] = dry_run
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


@cases(EXACT, quick=["current", "side"])
def test_same_bits(plain, tmp_path, numbers, kind):
    check(train(numbers, tmp_path, harness.LOSSLESS | EXACT[kind]), plain(numbers), same_bits=True)


@cases(OTHERS, quick=["default"])
def test_same_errors(plain, tmp_path, numbers, kind):
    check(train(numbers, tmp_path, OTHERS[kind]), plain(numbers), same_bits=False)


@fake_device.needed
@cases(SCHEDULES, quick=["late"])
def test_same_bits_on_a_device(plain, tmp_path, numbers, kind):
    numbers = numbers[: len(numbers) // 2]
    under = train(numbers, tmp_path, harness.LOSSLESS, "cuda", **SCHEDULES[kind])
    check(under, plain(numbers, "cuda"), same_bits=True)


@fake_device.needed
@pytest.mark.parametrize("numbers", [LONG[:20], FOUND_ON_SIDE], ids=["many", "found"])
def test_same_bits_on_a_device_with_a_side_stream(plain, tmp_path, numbers):
    under = train(numbers, tmp_path, harness.LOSSLESS | EXACT["side"], "cuda", **SCHEDULES["late"])
    check(under, plain(numbers, "cuda"), same_bits=True)


@fake_device.needed
@cases(SCHEDULES, quick=[])
def test_same_errors_on_a_device(plain, tmp_path, numbers, kind):
    numbers = numbers[: len(numbers) // 2]
    under = train(numbers, tmp_path, harness.preset("default"), "cuda", **SCHEDULES[kind])
    check(under, plain(numbers, "cuda"), same_bits=False)


@pytest.mark.parametrize("kind", ["current", "side"])
def test_same_bits_without_an_allocation(plain, tmp_path, kind):
    """Where one of the core's allocations fails, the same bits, or an error that says so."""
    arguments = ["-m", "random_programs", "--failing", INJECTOR, LONG.start, len(LONG)]
    extra = {"OMP_NUM_THREADS": "1"}
    run = harness.run_python(arguments, tmp_path, harness.LOSSLESS | EXACT[kind], extra, beside=(INJECTOR,))
    under = outcomes(run)
    check(under, plain(LONG), same_bits=True)
    assert {number: shown for number, each in under.items() if (shown := each["shown"])} == {}


@pytest.mark.quick
def test_same_bits_in_a_dry_run(plain, tmp_path):
    check(train(QUICK, tmp_path, harness.LOSSLESS, dry_run="lossless,default,division"), plain(QUICK), same_bits=True)


def test_same_bits_together(tmp_path):
    """Four threads at a time train programs that draw no random numbers."""
    plain = train(LONG, tmp_path / "plain", together=4)
    check(train(LONG, tmp_path / "current", harness.LOSSLESS, together=4), plain, same_bits=True)
    check(train(LONG, tmp_path / "side", harness.LOSSLESS | EXACT["side"], together=4), plain, same_bits=True)
