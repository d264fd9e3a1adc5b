# SPDX-License-Identifier: Apache-2.0
"""What an installation consists of, which is what the wheel carries, and that it works from there."""

import json
import os
import pathlib
import re
import subprocess
import sys

import harness

ROOT = harness.ROOT
TRAINING = (
    "import torch\nw = torch.randn(64, 64, requires_grad=True)\n"
    "(w * torch.randn(64, 64)).exp().sum().backward()\n"
)


def installed(folder: pathlib.Path) -> pathlib.Path:
    command = ["cmake", "--install", harness.BUILD, "--component", "runtime", "--prefix", folder]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def test_consists_of_the_command_and_its_libraries(tmp_path):
    folder = installed(tmp_path)
    files = {str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file()}
    optional = {f for f in files if re.fullmatch(r"lib/libcinch_(cuda|torch_cuda-\d+\.\d+)\.so", f)}
    cores = {f for f in files - optional if re.fullmatch(r"lib/libcinch_torch-\d+\.\d+\.so", f)}
    assert len(cores) == 1
    assert files - optional - cores == {"bin/cinch", "lib/libcinch.so"}
    # Wheels hold no links.
    assert not [f for f in folder.rglob("*") if f.is_symlink()]


def test_works_from_there(tmp_path):
    """Found beside the command, by a path that has nothing to do with the build's."""
    folder = installed(tmp_path / "prefix")
    report = tmp_path / "r.json"
    env = harness.plain_environment()
    command = [folder / "bin/cinch", "run", "--report", report, "--", sys.executable, "-c", TRAINING]
    done = harness.run(command, env)
    assert done.status == 0 and json.loads(report.read_text())["active"], done.stderr
    printed = harness.run([folder / "bin/cinch", "env", "--format", "plain"], env).stdout
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    assert variables["LD_PRELOAD"] == str(folder / "lib/libcinch.so")
    report.unlink()
    bare = harness.run([sys.executable, "-c", TRAINING], env | variables | {"CINCH_REPORT": str(report)})
    assert bare.status == 0 and json.loads(report.read_text())["active"]


def test_the_wheels_version_is_the_projects():
    cmake = re.search(r"project\(cinch VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    wheel = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    torch = re.search(r"torch==([\d.]+)", (ROOT / "pyproject.toml").read_text()).group(1)
    assert wheel == cmake
    assert f"torch=={torch}\n" in (ROOT / "scripts/requirements.txt").read_text()


def test_the_wheels_script_becomes_the_command(tmp_path):
    """As pip's `cinch` script does, with the package laid out as in a wheel."""
    package = tmp_path / "cinch_torch"
    installed(package)
    for file in (ROOT / "python/cinch_torch").glob("*.py"):
        (package / file.name).write_text(file.read_text())
    env = harness.plain_environment() | {"PYTHONPATH": str(tmp_path), "PATH": os.defpath}
    version = harness.run([sys.executable, "-m", "cinch_torch", "--version"], env)
    assert (version.status, version.stdout) == (0, harness.run([harness.CINCH, "--version"], env).stdout)
    # "python" is this environment's, though PATH did not name it.
    which = harness.run([sys.executable, "-m", "cinch_torch", "run", "-q", "--disable", "--", "sh", "-c", "command -v python"], env)
    assert os.path.samefile(pathlib.Path(which.stdout.strip()).parent, pathlib.Path(sys.executable).parent)
