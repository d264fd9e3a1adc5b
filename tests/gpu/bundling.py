# SPDX-License-Identifier: Apache-2.0
"""Fills the bundle from this machine (scripts/gpu-bundle): the finished build with every library that a
GPU machine may lack, and the headers and libraries to build anew from.

    python bundling.py BUILD_FOLDER BUNDLE NVCC
"""

import datetime
import functools
import importlib.metadata
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import builds
from context import ROOT

# Debian packages whose headers and libraries the build needs; Boost's, of which it needs few, are chosen
# by what the compiler reads.
PACKAGES = ["libhwy-dev", "libhwy1", "nlohmann-json3-dev", "libvalijson-dev", "libgtest-dev", "libgmock-dev"]
BUILD_FOLDERS = ("/usr/include/", "/usr/lib/", "/usr/share/cmake/")
# What every GPU machine has: glibc and GCC's runtime, no older than here, the driver, and what torch brings.
PROVIDED = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1",
    "libcuda.so.1", "libgcc_s.so.1", "libstdc++.so.6",
    "libc10.so", "libc10_cuda.so", "libgomp.so.1", "libtorch_cpu.so",
}  # fmt: skip


def needed(binary: pathlib.Path) -> list[str]:
    """The libraries that an ELF file names."""
    done = subprocess.run(["readelf", "-dW", binary], capture_output=True, text=True, check=True)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout)


@functools.cache
def found_here(binary: pathlib.Path) -> dict[str, pathlib.Path]:
    """Where this machine's loader finds the libraries of `binary`, and theirs."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True)
    return {name: pathlib.Path(path) for name, path in re.findall(r"^\s*(\S+) => (/\S+)", done.stdout, re.MULTILINE)}


def collect_build(folder: pathlib.Path, to: pathlib.Path):
    """Our programs and libraries, stripped, and beside the latter what they need and the GPU machine may
    lack: ours look there first ($ORIGIN; gpu-check sets LD_LIBRARY_PATH for programs)."""
    shutil.rmtree(to, ignore_errors=True)
    originals = [folder / "bin" / program for program in builds.PROGRAMS] + builds.libraries(folder)
    for original in originals:
        target = to / original.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["install", "-s", "-m", "755", original, target], check=True)
        if original.name.startswith("libcinch_torch-"):
            (to / "lib/libcinch_torch.so").symlink_to(original.name)
    here = {name: path for original in originals for name, path in found_here(original).items()}
    waiting = list(originals)
    while waiting:
        for name in needed(waiting.pop()):
            target = to / "lib" / name
            if name in PROVIDED or target.exists():
                continue
            if name not in here:
                raise SystemExit(f"a library that the build needs is not found here: {name}")
            shutil.copy(here[name], target)
            waiting.append(here[name])


def boost_headers() -> list[str]:
    """Those that the sources of the rooms that are built include, and theirs: what the compiler says it read."""
    rooms = [ROOT / room for room in ("allocator", "codecs", "files", "hooks", "policy")]
    used = {line for room in rooms for path in room.rglob("*") if path.suffix in (".h", ".cpp")
            for line in re.findall(r"^#include <boost/.*>$", path.read_text(), re.MULTILINE)}  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write("\n".join(sorted(used)) + "\n")
        source.flush()
        read = subprocess.run(["g++", "-std=c++20", "-M", source.name], capture_output=True, text=True, check=True).stdout
    return re.findall(r"/usr/include/boost/\S+", read)


def collect_prefix(archive: pathlib.Path):
    """The packages' files as this machine has them."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout.splitlines()
    files = {name for name in listed if name.startswith(BUILD_FOLDERS) and not pathlib.Path(name).is_dir()}
    with tarfile.open(archive, "w:gz") as packed:
        for name in sorted(files | set(boost_headers())):
            packed.add(name)


def manifest(nvcc: str) -> dict:
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "commit": builds.commit(),
        "sources": builds.sources_hash(),
        "torch": importlib.metadata.version("torch").split("+")[0],
        "nvcc": version.strip().splitlines()[-1],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def main():
    folder, bundle = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    collect_build(folder, bundle / "build")
    collect_prefix(bundle / "prefix.tar.gz")
    (bundle / "bundle.json").write_text(json.dumps(manifest(sys.argv[3]), indent=1) + "\n")


if __name__ == "__main__":
    main()
