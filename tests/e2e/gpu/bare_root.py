# SPDX-License-Identifier: Apache-2.0
"""Roots in which programs see little of this machine, and no network: what scripts/gpu-check meets on a GPU
machine. Made of Linux's namespaces (unshare), anew for each program, and gone with it.

`only_python` is a root with Python, torch and a shell. `without` is this machine less some Debian packages.
"""

import importlib.metadata
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

# Of the programs that every machine has, those that our scripts call.
TOOLS = ("bash", "sh", "env", "dirname", "cat", "mkdir", "rm")
# Modules of Python's that bring libraries which only they need.
LEFT_OUT = ("_sqlite3", "_curses", "readline", "_tkinter", "_dbm", "_gdbm")


def available() -> bool:
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "--net", "true"], capture_output=True).returncode == 0


def _inside(setup: list[str], root: pathlib.Path, command: list, env: dict[str, str], **options) -> subprocess.CompletedProcess:
    """Runs `command` in `root`, once the shell's lines `setup` have made it."""
    words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *map(str, command)]
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    script = "\n".join(["set -e", *setup, f"exec {chroot} {root} /usr/bin/{shlex.join(words)}"])
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--fork", "--kill-child"]
    return subprocess.run([*isolated, "sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)


def _devices(root: pathlib.Path) -> list[str]:
    return [f"mkdir -p {root}/proc {root}/dev {root}/tmp", f"mount --rbind /proc {root}/proc", f"mount --rbind /dev {root}/dev"]


def _bound(root: pathlib.Path, folder: str | os.PathLike, where: str | os.PathLike | None = None) -> list[str]:
    target = f"{root}{where or folder}"
    return [f"mkdir -p {target}", f"mount --rbind {folder} {target}"]


def _system_libraries(binary: pathlib.Path) -> set[str]:
    """Those of the system's folders and of Python's that `binary` loads, and its loader."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True)
    paths = re.findall(r"(?:=> |^\s*)(/\S+) \(0x", done.stdout, re.MULTILINE)
    return {path for path in paths if path.startswith(("/lib/", "/lib64/", "/usr/lib/", sys.base_prefix))}


def _closure(distribution: str) -> set[str]:
    """What of site-packages `distribution` and what it requires consist of."""
    entries, seen, waiting = set(), set(), [distribution]
    while waiting:
        name = waiting.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        entries |= {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}
        waiting += [re.match(r"[\w.-]+", line)[0] for line in found.requires or () if "extra ==" not in line]
    return entries


def only_python(scratch: pathlib.Path, folders: dict[str, pathlib.Path], command: list, env: dict[str, str] = {},
                **options) -> subprocess.CompletedProcess:  # fmt: skip
    """Runs `command` in a root that has Python and torch, `TOOLS`, and `folders` (where: what). `scratch` is
    an empty folder for the root."""
    site, stdlib = pathlib.Path(sysconfig.get_path("purelib")), pathlib.Path(sysconfig.get_path("stdlib"))
    python = pathlib.Path(sys.executable).resolve()
    modules = [path for path in (stdlib / "lib-dynload").glob("*.so") if not path.name.startswith(LEFT_OUT)]
    torch = [site / "torch/lib" / name for name in ("libtorch_python.so", "libtorch_cpu.so", "libc10_cuda.so")]
    tools = [pathlib.Path(path).resolve() for tool in TOOLS if (path := shutil.which(tool))]
    files = {str(python)}.union(*map(_system_libraries, [python, *modules, *torch, *tools]))
    home = f"/python/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    root = scratch
    setup = [
        f"mount -t tmpfs tmpfs {root}",
        f"mkdir -p {root}/usr/bin {root}/usr/lib {root}/usr/lib64 {root}/python/bin {root}{home}",
        f"ln -s usr/bin usr/lib usr/lib64 {root}/",
        f"mkdir {root}/etc && echo 'root:x:0:0::/tmp:/bin/sh' > {root}/etc/passwd",
        *_devices(root),
        *(f"cp -L {tool} {root}/usr/bin/{name}" for name, tool in zip(TOOLS, tools)),
        *(f"mkdir -p {root}{os.path.dirname(file)} && cp -L {file} {root}{file}" for file in sorted(files)),
        f"printf 'home = {python.parent}\\ninclude-system-site-packages = false\\n' > {root}/python/pyvenv.cfg",
        f"ln -s {python} {root}/python/bin/python3",
        *_bound(root, stdlib),
    ]
    for entry in sorted(_closure("torch")):
        if (site / entry).is_dir():
            setup += _bound(root, site / entry, f"{home}/{entry}")
        else:
            setup.append(f"cp {site / entry} {root}{home}/")
    for where, what in folders.items():
        setup += _bound(root, what, where)
    return _inside(setup, root, command, {"PATH": "/python/bin:/usr/bin", "HOME": "/tmp"} | env, **options)


def without(scratch: pathlib.Path, packages: list[str], command: list, env: dict[str, str] = {},
            **options) -> subprocess.CompletedProcess:  # fmt: skip
    """Runs `command` in this machine's root without the files of those Debian packages. What it writes below
    /usr is lost. `scratch` is an empty folder for the root."""
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True).stdout.splitlines()
    gone = [name for name in listed if name.startswith("/usr/") and not pathlib.Path(name).is_dir()]
    (scratch / "gone").write_text("\0".join(str(scratch / "root") + name for name in gone))
    root = scratch / "root"
    setup = [
        f"mkdir {root} {scratch}/layer && mount -t tmpfs tmpfs {scratch}/layer && mkdir {scratch}/layer/upper {scratch}/layer/work",
        f"mount --rbind / {root}",
        f"mount -t overlay overlay -o userxattr,lowerdir=/usr,upperdir={scratch}/layer/upper,workdir={scratch}/layer/work {root}/usr",
        f"xargs -0 rm -f < {scratch}/gone",
    ]
    return _inside(setup, root, command, env, **options)
