# SPDX-License-Identifier: Apache-2.0
"""The build under test: the bundle's finished one where it is of these sources and runs here, else one
made here with the packages that the bundle holds."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLE = ROOT / ".gpu"
MADE_HERE = ROOT / "build-gpu-check"
# What gpu-check's stages load or run.
TARGETS = ["cinch_preload", "cinch_torch", "cinch_cuda", "cinch", "codec_cuda_test", "codec_cuda_bench", "allocator_test",
           "device_allocator_cost"]  # fmt: skip
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
    program = BUNDLE / "build/bin/cinch"
    tried = subprocess.run([program, "--help"], capture_output=True, text=True,
                           env=os.environ | {"LD_LIBRARY_PATH": str(BUNDLE / "build/lib")})  # fmt: skip
    if tried.returncode != 0:
        return f"the bundle's programs do not run here: {tried.stderr.strip().splitlines()[-1:]}"
    return None


def make(log: pathlib.Path) -> pathlib.Path:
    """Builds for this machine's GPU, with the bundle's packages where the system has none.
    @raises RuntimeError"""
    prefix = MADE_HERE / "prefix"
    for package in sorted((BUNDLE / "debs").glob("*.deb")):
        mark = prefix / f".{package.stem}"
        if not mark.exists():
            prefix.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg", "-x", package, prefix], check=True)
            mark.touch()
    usr = prefix / "usr"
    environment = dict(os.environ)
    for variable, folder in (("CPLUS_INCLUDE_PATH", "include"), ("LIBRARY_PATH", "lib/x86_64-linux-gnu")):
        environment[variable] = os.pathsep.join(filter(None, [str(usr / folder), os.environ.get(variable)]))
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    with log.open("a") as output:

        def step(*command):
            if subprocess.run([str(word) for word in command], cwd=ROOT, env=environment, stdout=output, stderr=output).returncode:
                end = log.read_text().strip().splitlines()[-3:]
                raise RuntimeError("could not be built: " + " / ".join(end)[-400:])

        step("cmake", "-S", ".", "-B", MADE_HERE, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=ON", "-DCMAKE_CUDA_ARCHITECTURES=90-real",
             f"-DCMAKE_CUDA_COMPILER={nvcc}", f"-DCMAKE_PREFIX_PATH={usr}", "-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu",
             f"-DCINCH_PYTHON={sys.executable}", "-DCINCH_WERROR=OFF")  # fmt: skip
        known = subprocess.run(["ninja", "-C", MADE_HERE, "-t", "targets", "all"], capture_output=True, text=True).stdout
        optional = [target for target in OPTIONAL_TARGETS if f"\n{target}: " in f"\n{known}"]
        step("cmake", "--build", MADE_HERE, "--target", *TARGETS, *optional)
    for library in (usr / "lib/x86_64-linux-gnu").glob("lib*.so.*"):
        if library.name.startswith(("libhwy.so", "libzstd.so")):
            target = MADE_HERE / "lib" / library.name
            target.unlink(missing_ok=True)
            shutil.copy(library, target)
    return MADE_HERE
