# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check tests itself: every stage on the fake CUDA runtime with tiny sizes, from the bundle, in a
root that has Python, torch and the checkout only; and how it reads and judges what programs print."""

import json
import os
import pathlib
import select
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/gpu"), str(ROOT / "tests/fakecuda")]

import bare_root  # noqa: E402
import builds  # noqa: E402
import check  # noqa: E402
import fakecuda  # noqa: E402
import gpu_rehearsal  # noqa: E402
from context import Context, Failure, NotHere  # noqa: E402
from stages import bandwidth, codecs, sanitizer, train  # noqa: E402

BUILD = pathlib.Path(os.environ["CINCH_BUILD_DIR"])


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    if not fakecuda.available():
        pytest.skip("the fake CUDA runtime was not built: this torch has no CUDA")
    if not bare_root.available():
        pytest.skip("needs Linux's user namespaces (unshare)")
    checkout = gpu_rehearsal.checkout(tmp_path_factory.mktemp("checkout"))
    gpu_rehearsal.add_fake_cuda(checkout / ".gpu/build")
    done = bare_root.only_python(
        tmp_path_factory.mktemp("root"), {"/checkout": checkout},
        ["bash", "/checkout/scripts/gpu-check", "--fake", "--prebuilt", "--output", "/checkout/out"],
    )  # fmt: skip
    found = checkout / "out/gpu-check.json"
    assert found.is_file(), done.stdout + done.stderr
    return done, json.loads(found.read_text())


def test_nothing_is_wrong(checked):
    done, content = checked
    failed = [row for row in content["rows"] if row["verdict"] == "failed"]
    assert (done.returncode, failed) == (0, []), done.stdout


def test_the_bundles_build_was_used_as_it_is(checked):
    _, content = checked
    assert content["build"] == "the bundle's"


def test_every_stage_did_something(checked):
    _, content = checked
    ran = {row["stage"] for row in content["rows"] if row["verdict"] in ("passed", "measured")}
    assert ran == set(check.STAGES) - {"sanitizer"}, "that needs a GPU"


def test_what_did_not_run_says_why(checked):
    _, content = checked
    silent = [row for row in content["rows"] if row["verdict"] == "not run" and len(row["figure"]) < 10]
    assert silent == []


def test_a_fakes_figures_are_marked_and_judge_nothing(checked):
    done, content = checked
    assert content["fake"] and content["note"] == check.FAKE_MARK
    assert done.stdout.count(check.FAKE_MARK) == 2
    assert {row["verdict"] for row in content["rows"]} <= {"passed", "measured", "not run"}


def test_the_table_is_last_and_complete(checked):
    done, content = checked
    lines = done.stdout.splitlines()
    last = lines[-1 - len(content["rows"]) : -1]
    assert [line.split()[0] for line in last] == [row["stage"] for row in content["rows"]]


def test_policies_take_part(checked):
    _, content = checked
    rows = {row["values"]["variant"]: row["values"] for row in content["rows"] if row["values"].get("variant")}
    assert rows.keys() == set(train.VARIANTS)
    assert rows["division"]["ratio"] > rows["lossless"]["ratio"] > 1
    assert rows["off"]["losses"] == rows["lossless"]["losses"] == rows["plain"]["losses"] != rows["division"]["losses"]


def test_each_case_that_bandwidth_judges_was_measured(checked):
    _, content = checked
    assert {row["values"]["case"] for row in content["rows"] if "encode_share" in row["values"]} == set(bandwidth.JUDGED)


@pytest.mark.parametrize("cases", [codecs.SMALL, codecs.ROUND_TRIPS, sanitizer.MIDDLE])
def test_each_pattern_selects_tests(cases):
    for pattern in cases.split(":"):
        done = subprocess.run([BUILD / "bin/codec_cuda_test", "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True,
                              text=True, check=True)  # fmt: skip
        assert "\n  " in done.stdout, pattern


@pytest.fixture
def context(tmp_path):
    made = Context("unit", 60, BUILD, tmp_path, tiny=False, fake=False)
    yield made
    made.close()


BENCH = """Fake; GB/s of raw data; share: of a device-to-device copy's bytes read and written a second
case                                  MiB     copy    encode  share    decode  share bits/el call us
group_quant/2bit/f32                    1     1500       400   0.50       500   0.60   2.125     7.3
group_quant/2bit/f32                  256     3000      2500   0.88      2600   0.91   2.125     4.0
division/56x56/bf16                  1024     3000      2400   0.84      2600   0.91   2.250     4.1
dct/f32                               256  not on CUDA
"""


@pytest.mark.quick
def test_reads_what_the_benchmark_prints(context, monkeypatch, tmp_path):
    program = tmp_path / "bench"
    program.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{BENCH}TEXT\n")
    program.chmod(0o755)
    monkeypatch.setattr(context, "binary", lambda name: program)
    bandwidth.judged(context)
    assert [(row.what, row.verdict) for row in context.rows] == [
        ("group_quant/2bit/f32, 256 MiB", "met"),
        ("division/56x56/bf16, 1024 MiB", "missed"),
        ("host time of an encode call", "missed"),
    ]


NCU = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum",\
"sm__throughput.avg.pct_of_peak_sustained_elapsed"
"","","","%","nsecond","%"
"0","7","group_quant_encode(Job, const void *)","80.5","1,000.0","40.0"
"1","7","group_quant_encode(Job, const void *)","90.5","3,000.0","44.0"
"2","7","division_decode(Job)","20.0","500","30.5"
""".replace("\\\n", "")
REFUSED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"


@pytest.mark.quick
@pytest.mark.parametrize("prints, status", [(NCU, 0), (REFUSED, 1), (None, 0)], ids=["counters", "refused", "absent"])
def test_reads_counters_where_it_may(prints, status, context, monkeypatch, tmp_path):
    if prints is not None:
        ncu = tmp_path / "ncu"
        ncu.write_text(f"#!/bin/sh\ncat <<'TEXT'\n{prints}TEXT\nexit {status}\n")
        ncu.chmod(0o755)
    monkeypatch.setattr(bandwidth.shutil, "which", lambda name, path=None: str(ncu) if prints is not None else None)
    monkeypatch.setattr(context, "binary", lambda name: tmp_path / name)
    context.check(bandwidth.COUNTED, bandwidth.counters, context)
    (row,) = context.rows
    assert row.what == bandwidth.COUNTED and row.verdict == ("measured" if prints is NCU else "not run")
    if prints is REFUSED:
        assert "ERR_NVGPUCTRPERM" in row.figure and "\n" not in row.figure
    if prints is NCU:
        assert row.values["kernels"] == {
            "group_quant_encode": {"memory": 85.5, "processors": 42.0, "ns": 2000.0},
            "division_decode": {"memory": 20.0, "processors": 30.5, "ns": 500.0},
        }
        assert "lowest memory/processors: division_decode 20/30 %" in row.figure


GOOGLETEST = """[ RUN      ] A.One
[       OK ] A.One (3 ms)
[  FAILED  ] A.Two (1 ms)
[  SKIPPED ] A.Three (0 ms)
[  FAILED  ] 1 test, listed below:
[  FAILED  ] A.Two
"""


@pytest.mark.quick
def test_reads_what_googletest_prints():
    assert codecs.verdict_of([GOOGLETEST, GOOGLETEST]) == (2, 2, ["A.Two", "A.Two"])


@pytest.mark.parametrize(
    ("summary", "status", "verdict"),
    [
        ("ERROR SUMMARY: 0 errors", 0, "passed"),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, "passed"),
        ("ERROR SUMMARY: 3 errors", 99, "failed"),
        ("", 0, "failed"),
    ],
)
@pytest.mark.quick
def test_reads_what_compute_sanitizer_prints(context, monkeypatch, tmp_path, summary, status, verdict):
    program = tmp_path / "sanitizer"
    line = f"========= {summary}" if summary else ""
    program.write_text(f"#!/bin/sh\necho '[       OK ] A.One (3 ms)'\necho '{line}'\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sanitizer.shutil, "which", lambda *arguments, **options: str(program))
    monkeypatch.setattr(context, "binary", lambda name: program)
    context.check("sanitizer", sanitizer.sanitize, context, "memcheck", "*", "small", 10)
    assert [row.verdict for row in context.rows] == [verdict]


@pytest.mark.quick
def test_a_check_that_goes_wrong_becomes_a_row(context):
    def broken():
        raise Failure("as told")

    def absent():
        raise NotHere("nowhere")

    def mistaken():
        raise KeyError("oops")

    for function in (broken, absent, mistaken):
        context.check(function.__name__, function)
    context.until = 0
    context.check("late", broken)
    assert [(row.what, row.verdict) for row in context.rows] == [
        ("broken", "failed"), ("absent", "not run"), ("mistaken", "failed"), ("late", "not run"),
    ]  # fmt: skip


@pytest.mark.quick
def test_a_program_that_hangs_is_ended(context):
    done = context.run([sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"], limit=5)
    assert (done.status, done.stdout) == (None, "here\n")
    with pytest.raises(Failure, match="time was up"):
        done.last_json()


def gpu_check(monkeypatch, out: pathlib.Path, *words: str) -> tuple[int, dict]:
    monkeypatch.setattr(sys, "argv", ["check.py", "--build", str(BUILD), "--output", str(out), *words])
    return check.main(), json.loads((out / "gpu-check.json").read_text())


@pytest.mark.quick
@pytest.mark.parametrize("mistake", [KeyError("oops"), SystemExit("a usage")])
def test_results_are_written_before_the_first_stage_and_a_stage_that_breaks_is_a_row(monkeypatch, tmp_path, mistake):
    def broken(ctx):
        before.append(json.loads((tmp_path / "gpu-check.json").read_text()))
        ctx.row("first", "passed")
        before.append(json.loads((tmp_path / "gpu-check.json").read_text()))
        raise mistake

    before: list[dict] = []
    monkeypatch.setattr(check, "device", lambda *_: {"name": "a GPU", "memory": 1 << 30, "torch": "2.11"})
    monkeypatch.setattr(codecs, "run", broken)
    monkeypatch.setattr(bandwidth, "run", lambda ctx: ctx.row("second", "passed"))
    status, content = gpu_check(monkeypatch, tmp_path, "codecs", "bandwidth")
    assert [len(each["rows"]) for each in before] == [0, 1] and before[0]["device"]["name"] == "a GPU"
    rows = [(row["stage"], row["what"], row["verdict"]) for row in content["rows"]]
    assert rows == [("codecs", "first", "passed"), ("codecs", "codecs", "failed"), ("bandwidth", "second", "passed")]
    assert type(mistake).__name__ in content["rows"][1]["figure"] and status == 1


@pytest.mark.quick
@pytest.mark.parametrize("fault", [RuntimeError("could not be built: no nvcc"), FileNotFoundError("cmake")])
def test_a_build_that_fails_leaves_results_that_say_so(monkeypatch, tmp_path, fault):
    def broken(*_):
        raise fault

    monkeypatch.setattr(check, "find_build", broken)
    status, content = gpu_check(monkeypatch, tmp_path)
    assert status == 2
    assert [row["verdict"] for row in content["rows"]] == ["failed"] and str(fault) in content["rows"][0]["figure"]


@pytest.mark.quick
def test_building_and_stages_share_one_deadline(monkeypatch, tmp_path):
    given = {}

    def slow(options, log, until):
        given["build"] = until - time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 350)  # that long it takes
        return BUILD, "built here"

    monkeypatch.setattr(check, "find_build", slow)
    monkeypatch.setattr(check, "device", lambda *_: {"name": "a GPU", "memory": 1 << 30, "torch": "2.11"})
    monkeypatch.setattr(codecs, "run", lambda ctx: given.update(codecs=ctx.remaining()))
    gpu_check(monkeypatch, tmp_path, "--seconds", "400", "codecs")
    assert 390 < given["build"] <= 400 and 40 < given["codecs"] <= 50


@pytest.mark.quick
def test_a_build_ends_at_the_deadline_with_all_that_it_started(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(RuntimeError, match="did not end before the time was up"):
        builds.step(["sh", "-c", f"sleep 600 >{pipe}; true"], dict(os.environ), tmp_path / "log", time.monotonic() + 1)
    select.select([held], [], [], 10)
    assert os.read(held, 1) == b"", "nobody has it open any more"
    os.close(held)


@pytest.mark.quick
def test_a_bundle_of_other_sources_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(builds, "BUNDLE", tmp_path)
    assert "no bundle" in builds.prebuilt_fault()
    (tmp_path / "bundle.json").write_text(json.dumps({"sources": "other", "commit": "abc", "torch": "2.11.0"}))
    assert "other sources (abc)" in builds.prebuilt_fault()


@pytest.mark.quick
def test_stages_and_networks_that_there_are_not():
    for words in (["codec"], ["--case", "alexnet"]):
        done = subprocess.run(["scripts/gpu-check", *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2 and "no such" in done.stderr, done.stderr
