# SPDX-License-Identifier: Apache-2.0
"""The build under test: the bundle's finished one where it is of these sources and loads here, else one
made here with the headers and libraries that the bundle holds."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

from context import BUNDLE, ROOT, kill, program_environment

MADE_HERE = ROOT / "build-gpu-check"
# What gpu-check's stages run and load.
PROGRAMS = ["codec_cuda_test", "device_allocator_test", "codec_cuda_bench"]
TARGETS = ["cinch_preload", "cinch_torch", "cinch_cuda", "device_allocator_cost", *PROGRAMS]
OPTIONAL_TARGETS = ["cinch_torch_cuda"]
ROOMS = ("agent", "allocator", "cmake", "codecs", "configs", "files", "hooks", "policy", "tests/allocator", "tests/bench", "tests/codecs")


def sources_hash() -> str:
    """Of every file that the build depends on."""
    digest = hashlib.sha256((ROOT / "CMakeLists.txt").read_bytes())
    for folder in ROOMS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in (".cpp", ".h", ".cu", ".cuh", ".cmake", ".txt", ".json", ".map", ".c", ".in"):
                digest.update(str(path.relative_to(ROOT)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def commit() -> str:
    """Of the sources: git's, else what the bundle says, where the checkout travelled without git."""
    if shutil.which("git"):
        found = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
    manifest = BUNDLE / "bundle.json"
    return json.loads(manifest.read_text())["commit"] if manifest.exists() else "unknown"


def prebuilt_fault() -> str | None:
    """Why the bundle's build can't be used; None when it can."""
    manifest = BUNDLE / "bundle.json"
    if not manifest.exists():
        return "there is no bundle (scripts/gpu-bundle makes one)"
    about = json.loads(manifest.read_text())
    if about["sources"] != sources_hash():
        return f"the bundle is of other sources ({about['commit']})"
    import importlib.metadata

    version = importlib.metadata.version("torch").split("+")[0]
    if about["torch"].rsplit(".", 1)[0] != version.rsplit(".", 1)[0]:
        return f"the bundle is for torch {about['torch']}, and here is {version}"
    return load_fault(BUNDLE / "build")


def libraries(build: pathlib.Path) -> list[pathlib.Path]:
    """Cinch's, in an order in which each finds those that it needs."""
    found = [path for path in sorted((build / "lib").glob("lib*.so")) if not path.is_symlink()]
    return [path for path in found if path.name.startswith(("libcinch", "libdevice_allocator_cost"))]


def load_fault(build: pathlib.Path) -> str | None:
    """Why the programs do not start here, or a library cannot be loaded beside torch; None when all is
    well. Needs no GPU."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    load = "import ctypes, sys, torch\nfor path in sys.argv[1:]: ctypes.CDLL(path)"
    tried = [(build / "bin" / program, "--gtest_list_tests") for program in PROGRAMS if program.endswith("_test")]
    tried += [(sys.executable, "-W", "ignore", "-c", load, *libraries(build))]
    for index, command in enumerate(tried):
        env = plain if index == len(tried) - 1 else program_environment(build, plain)
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the bundle's build does not run here: {error}"
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()[-1:] or [f"{pathlib.Path(command[0]).name}: status {done.returncode}"]
            return f"the bundle's build does not load here: {said[0]}"
    return None


def unpacked() -> pathlib.Path:
    """The folder usr/ with the bundle's headers and libraries."""
    prefix, archive = MADE_HERE / "prefix", BUNDLE / "prefix.tar.gz"
    mark = prefix / f".unpacked-{archive.stat().st_mtime_ns}" if archive.exists() else None
    if mark is not None and not mark.exists():
        shutil.rmtree(prefix, ignore_errors=True)
        prefix.mkdir(parents=True)
        with tarfile.open(archive) as files:
            files.extractall(prefix, filter="tar")
        mark.touch()
    return prefix / "usr"


def step(command: list, env: dict[str, str], log: pathlib.Path, until: float):
    """@raises RuntimeError when the command fails, or has not ended at `until` (time.monotonic)"""
    with log.open("a") as output:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=output, start_new_session=True)  # fmt: skip
        try:
            status = process.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            kill(process)
            process.wait()
            raise RuntimeError("the build did not end before the time was up: the next call goes on from here") from None
    if status != 0:
        raise RuntimeError("could not be built: " + " / ".join(log.read_text().strip().splitlines()[-3:])[-400:])


def configure(log: pathlib.Path, until: float) -> dict[str, str]:
    """Configures MADE_HERE for this machine's GPU, with the bundle's headers and libraries where the
    system has none. @return the environment to build in. @raises RuntimeError"""
    usr = unpacked()
    env = dict(os.environ)
    for variable, folder in (("CPLUS_INCLUDE_PATH", "include"), ("LIBRARY_PATH", "lib/x86_64-linux-gnu")):
        env[variable] = os.pathsep.join(filter(None, [str(usr / folder), os.environ.get(variable)]))
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    step(["cmake", "-S", ".", "-B", MADE_HERE, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=ON", "-DCINCH_GPU_CHECK=ON",
          "-DCMAKE_CUDA_ARCHITECTURES=90-real", f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_PREFIX_PATH={usr}",
          "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu", f"-DCINCH_PYTHON={sys.executable}", "-DCINCH_WERROR=OFF"], env, log, until)  # fmt: skip
    return env


def make(log: pathlib.Path, until: float) -> pathlib.Path:
    """Builds into MADE_HERE, by `until` (time.monotonic). @raises RuntimeError"""
    env = configure(log, until)
    known = subprocess.run(["ninja", "-C", MADE_HERE, "-t", "targets", "all"], capture_output=True, text=True).stdout
    optional = [target for target in OPTIONAL_TARGETS if f"\n{target}: " in f"\n{known}"]
    step(["cmake", "--build", MADE_HERE, "--target", *TARGETS, *optional], env, log, until)
    for library in (MADE_HERE / "prefix/usr/lib/x86_64-linux-gnu").glob("lib*.so.*"):
        target = MADE_HERE / "lib" / library.name
        target.unlink(missing_ok=True)
        shutil.copy(library, target)
    return MADE_HERE
