# SPDX-License-Identifier: Apache-2.0
"""Fused attention's backward takes exp(q.k - log-sum-exp). Of approximated q and k it gets the log-sum-exp, and the
output, that these have: else a gradient may be mostly error."""

import pytest

import harness

PROGRAM = harness.HERE / "policies/attention_gradients.py"
POLICY = {"version": 1, "policy": "default", "min_bytes": 0, "raw_window": 0, "guard": {"every_steps": 0}}
FOUR_BITS = {"match": {"op": "aten::_scaled_dot_product*"}, "codec": {"name": "group_quant", "bits": 4, "dither": "subtractive"}}
SMALL = 0.2  # at 4 bits


def error(folder, *how, slow_us=None, **settings) -> tuple[float, dict]:
    """The program's figure, and how often each operand was held in each way. The side thread may be slow."""
    extra, beside = ({"E2E_SLOW_US": slow_us}, (harness.SLOW_THREAD,)) if slow_us else ({}, ())
    run = harness.run_python([PROGRAM, "cpu", *how], folder, POLICY | settings, extra, beside)
    rows = [row for row in run.report["ops"] if "_scaled_dot_product" in row["op"]]
    return float(run.stdout), {(row["operand"], row["codec"]): row["count"] for row in rows}


def derived(rows, operand) -> int:
    return sum(count for (of, codec), count in rows.items() if of == operand and codec.startswith("derived from"))


@pytest.mark.parametrize("type_name", ["float32", "bfloat16"])
def test_both_parts_are_those_of_the_operands_that_backward_gets(tmp_path, type_name):
    found, rows = error(tmp_path, type_name)
    assert derived(rows, "result0") > 20 and derived(rows, "result1") > 20, rows
    assert rows["query", "group_quant 4-bit dithered"] > 20, rows
    assert found < SMALL


def test_a_features_groups_have_no_others(tmp_path):
    """In trained models a few features of keys are far larger than others."""
    found, rows = error(tmp_path, "float32", "unlike")
    assert rows["key", "group_quant 4-bit dithered"] > 20, rows
    assert found < SMALL


def test_of_exact_parts_four_bits_are_not_enough(tmp_path):
    """So the other tests could fail."""
    found, _ = error(tmp_path, "float32", derive={"attention": False}, rules=[FOUR_BITS])
    assert found > 2.5 * SMALL


def test_where_nothing_is_computed_anew_operands_have_eight_bits(tmp_path):
    found, rows = error(tmp_path, "float32", derive={"attention": False})
    assert {codec for operand, codec in rows if operand in ("query", "key", "value", "result0")} == {"group_quant 8-bit dithered"}
    assert rows["result1", "exponent_pack"] > 20
    assert found < SMALL / 20


# The side thread may be behind, and must not read what the program then writes to.
@pytest.mark.parametrize("slow_us", [None, "5000"])
def test_operands_that_the_program_keeps_are_taken_from_it(tmp_path, slow_us):
    """As caches of keys and values do. The last layer's only when backward begins."""
    how = {"stream": "side", "slow_us": slow_us} if slow_us else {}
    found, rows = error(tmp_path / "keeps", "float32", "keeps", **how)
    assert derived(rows, "result0") > 20 and derived(rows, "result1") > 20, rows
    assert rows["key", "group_quant 4-bit dithered"] > 20, rows
    assert found == error(tmp_path / "lets go", "float32", **how)[0]


def test_a_cache_of_keys_and_values_makes_nothing_larger(tmp_path):
    """That of a causal model of `transformers`, which the model's result holds."""
    llama, reports = harness.HERE / "policies/cached_llama.py", {}
    for how in "cache", "no_cache":
        run = harness.run_python([llama, how], tmp_path / how, "default")
        assert run.stdout.strip() == how.replace("_", " ")
        reports[how] = run.report
    assert reports["cache"]["stored_bytes_at_peak"] < 1.05 * reports["no_cache"]["stored_bytes_at_peak"]
    all_bytes = reports["cache"]["raw_bytes_at_peak"] + reports["cache"]["held_elsewhere_bytes_at_peak"]
    assert all_bytes == pytest.approx(reports["no_cache"]["raw_bytes_at_peak"], rel=0.01)


def test_what_was_taken_from_the_program_may_not_be_changed(tmp_path):
    run = harness.run_python([PROGRAM, "cpu", "float32", "keeps", "changes"], tmp_path, POLICY)
    assert run.stdout == "", "PyTorch's error was raised"


def test_an_exact_policy_takes_nothing_from_the_program(tmp_path):
    """Which may write to its memory in ways that PyTorch does not see."""
    found, rows = error(tmp_path, "float32", "keeps", policy="lossless")
    assert derived(rows, "result0") == derived(rows, "result1") == 0, rows
    assert ("key", "exponent_pack") not in rows, rows
    assert found < 1e-10


# With these the window ends between the operands and the log-sum-exp, and between that and the output.
@pytest.mark.parametrize("window", [0.8, 1.6])
def test_a_log_sum_exp_that_is_raw_yet_is_computed_anew_too(tmp_path, window):
    """However far the side thread is with the operands."""
    found, _ = error(tmp_path / "current", "float32", raw_window=window)
    assert found < SMALL
    for slow_us in None, "300", "5000":
        folder = tmp_path / f"side {slow_us}"
        assert error(folder, "float32", raw_window=window, stream="side", slow_us=slow_us)[0] == found


def test_a_second_backward_gets_the_same(tmp_path):
    once, _ = error(tmp_path / "once", "float32")
    assert error(tmp_path / "twice", "float32", "twice")[0] == once


def test_lossless_derives_both(tmp_path):
    found, rows = error(tmp_path, "float32", policy="lossless")
    assert derived(rows, "result0") > 15 and derived(rows, "result1") > 15, rows
    assert found < 1e-10


def test_what_the_guard_doubts_are_the_operands(tmp_path):
    """The parts are derived as before."""
    guard = {"every_steps": 1, "max_relative_error": 0.05}
    _, rows = error(tmp_path, "float32", guard=guard, min_bytes=4096)
    assert any("group_quant 8-bit" in codec for operand, codec in rows if operand == "query"), rows
    assert derived(rows, "result0") > 10 and derived(rows, "result1") > 10, rows
