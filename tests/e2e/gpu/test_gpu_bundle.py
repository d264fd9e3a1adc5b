# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu-bundle packs is all that a GPU machine without network lacks: to run, and to build anew."""

import shutil
import subprocess
import sys

import pytest

import bare_root
import gpu_rehearsal

sys.path.insert(0, str(gpu_rehearsal.ROOT / "tests/gpu"))

import builds  # noqa: E402
import bundling  # noqa: E402

# Of the packages that scripts/setup installs, those that a machine with g++, CMake and Ninja may lack.
ABSENT = [
    "libhwy-dev", "libhwy1", "nlohmann-json3-dev", "libvalijson-dev", "libcli11-dev", "libncurses-dev", "libsqlite3-dev",
    "libgtest-dev", "libgmock-dev", "googletest", "libbenchmark-dev", "libcpp-httplib-dev", "libzfp-dev", "liblz4-dev",
    "libzstd-dev", "ccache",
]  # fmt: skip


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return gpu_rehearsal.checkout(tmp_path_factory.mktemp("checkout"))


def test_every_file_needs_what_is_bundled_or_what_every_gpu_machine_has(checkout):
    folder = checkout / ".gpu/build"
    binaries = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in binaries} >= {"libcinch.so", "libcinch_cuda.so", *builds.PROGRAMS}
    bundled = {path.name for path in (folder / "lib").iterdir()}
    lacking = {(path.name, name) for path in binaries for name in bundling.needed(path) if name not in bundled | bundling.PROVIDED}
    assert lacking == set()


def test_a_library_that_is_found_nowhere_stops_the_bundle(tmp_path, monkeypatch):
    monkeypatch.setattr(bundling, "found_here", lambda binary: {})
    with pytest.raises(SystemExit, match="is not found here: lib"):
        bundling.collect_build(gpu_rehearsal.BUILD, tmp_path / "build")


def test_a_build_is_taken_when_its_programs_start_and_its_libraries_load(checkout, tmp_path):
    build = tmp_path / "build"
    shutil.copytree(checkout / ".gpu/build", build, symlinks=True)
    assert builds.load_fault(build) is None
    core = next((build / "lib").glob("libcinch_torch-*.so"))
    core.write_bytes(b"")
    assert core.name in builds.load_fault(build)
    (build / "bin/codec_cuda_test").write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    assert "no such library" in builds.load_fault(build)
    (build / "bin/codec_cuda_test").unlink()
    assert "does not run here" in builds.load_fault(build)


# One file for each library of the bundle's: Boost, valijson (with a source that is generated), JSON, Highway,
# GoogleTest.
TARGETS = [
    "allocator/CMakeFiles/cinch_allocator.dir/Unity/unity_0_cxx.cxx.o",
    "policy/embedded.cpp",
    "policy/CMakeFiles/cinch_policy_files.dir/Unity/unity_0_cxx.cxx.o",
    "agent/CMakeFiles/cinch_telemetry.dir/Unity/unity_0_cxx.cxx.o",
    "codecs/CMakeFiles/cinch_codecs.dir/cpu/masks/sign.cpp.o",
    "tests/CMakeFiles/cinch_test_headers_O0.dir/cmake_pch.hxx.gch",
]
# Configures, and preprocesses the files: compiling takes minutes.
READ = """
import pathlib, subprocess, sys, time
sys.path.insert(0, "tests/gpu")
import builds
log, until = pathlib.Path("log"), time.monotonic() + 300
env = builds.configure(log, until)
for target in sys.argv[1:]:
    ask = ["ninja", "-C", builds.MADE_HERE, "-t", "commands", "-s", target]
    command = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    read = "" if target.endswith(".cpp") else "-E"
    builds.step(["sh", "-c", f"cd {builds.MADE_HERE} && {command} {read}"], env, log, until)
"""


def test_the_sources_configure_and_find_their_headers_in_the_bundle_alone(checkout, tmp_path):
    if not bare_root.available():
        pytest.skip("needs Linux's user namespaces (unshare)")
    installed = set(subprocess.run(["dpkg-query", "-W", "-f", "${Package}\\n"], capture_output=True, text=True).stdout.split())
    boost = sorted(name for name in installed if name.startswith("libboost") and name.endswith("-dev"))
    for passes in (True, False):
        if not passes:
            (checkout / ".gpu/prefix.tar.gz").rename(tmp_path / "prefix.tar.gz")
            shutil.rmtree(checkout / "build-gpu-check")
        scratch = tmp_path / str(passes)
        scratch.mkdir()
        done = bare_root.without(
            scratch, [name for name in ABSENT if name in installed] + boost,
            ["env", "-C", checkout, sys.executable, "-c", READ, *TARGETS], {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )  # fmt: skip
        assert (done.returncode == 0) == passes, done.stdout + done.stderr
    assert "could not be built" in done.stderr
