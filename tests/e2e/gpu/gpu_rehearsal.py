# SPDX-License-Identifier: Apache-2.0
"""A checkout with a bundle as they travel to a GPU machine, for tests of scripts/gpu-check."""

import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ["CINCH_BUILD_DIR"])


def bundle(to: pathlib.Path):
    """Of the build under test, without packages that pip would fetch."""
    command = ["scripts/gpu-bundle", "--no-setup", "--no-packages", "--build", BUILD, "--to", to]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def checkout(to: pathlib.Path) -> pathlib.Path:
    """The files that git knows or would add, with a bundle."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True,
                            text=True, check=True).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name, follow_symlinks=False)
    bundle(to / ".gpu")
    return to


def add_fake_cuda(bundled: pathlib.Path):
    """Puts the fake CUDA runtime into a bundle's build/, where its own libraries stay what they are."""
    lib, fake = bundled / "lib", bundled / "lib/fakecuda"
    fake.mkdir()
    for name in ("libfakecuda.so", "libfakecuda_executor.so", "libfakecuda_kernels.so", "fakecuda/libcinch_cuda.so"):
        shutil.copy(BUILD / "lib" / name, lib / name)
    (fake / "libcuda.so.1").symlink_to("../libfakecuda.so")
    for library in [*lib.glob("libcinch.so"), *lib.glob("libcinch_torch-*.so"), *lib.glob("libhwy.so.*")]:
        (fake / library.name).symlink_to(f"../{library.name}")
