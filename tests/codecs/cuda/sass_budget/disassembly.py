# SPDX-License-Identifier: Apache-2.0
"""Reads kernels out of a binary that nvcc made: their machine code as nvdisasm prints it, and what the
cubin says of parameters, constants and shared memory."""

import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field

ARCHITECTURE = "sm_90"
PARAMETERS_AT = 0x210  # in constant bank 0, on sm_90


class NoTools(Exception):
    """Neither PATH nor triton's package has the disassembler."""


def find_tools(python_packages):
    """Paths of cuobjdump and nvdisasm: on PATH, or in triton's wheel, one of `python_packages`."""
    beside = [pathlib.Path(p) / "triton/backends/nvidia/bin" for p in python_packages]
    found = []
    for tool in ("cuobjdump", "nvdisasm"):
        places = [shutil.which(tool)] + [str(p / tool) for p in beside if (p / tool).exists()]
        if not any(places):
            raise NoTools(f"no {tool} on PATH, and no triton in {', '.join(map(str, python_packages)) or 'no package'}")
        found.append(next(filter(None, places)))
    return found


@dataclass
class Instruction:
    address: int
    guard: str  # "", "P0", "!P0", "UP0"
    opcode: str
    operands: list


@dataclass
class Kernel:
    name: str
    instructions: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)  # name -> index of an instruction
    parameter_sizes: list = field(default_factory=list)
    parameter_offsets: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)  # bank -> bytes
    shared_bytes: int = 0


LINE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
LABEL = re.compile(r"^([.$\w]+):\s*$")
SECTION = re.compile(r"\.section\s+\.text\.([^,\s]+)")


def split_operands(text):
    """"R4, c[0x0][0x28], `(.L_x_1)" -> its three parts."""
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def parse(listing):
    """The kernels of one nvdisasm listing, by name."""
    kernels, kernel = {}, None
    for line in listing.splitlines():
        if match := SECTION.search(line):
            kernel = kernels.setdefault(match.group(1), Kernel(match.group(1)))
        elif kernel is None:
            continue
        elif match := LINE.match(line):
            address, guard, opcode, operands = match.groups()
            kernel.instructions.append(Instruction(int(address, 16), guard or "", opcode, split_operands(operands)))
        elif match := LABEL.match(line):
            kernel.labels[match.group(1)] = len(kernel.instructions)
        elif ".section" in line:
            kernel = None
    return kernels


def sections_of(cubin):
    """(name, offset, size, whether it has bytes) of each section of an ELF file."""
    (at,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, at + i * size) for i in range(count)]
    names_at = headers[names][4]
    for name, kind, _, _, offset, length in headers:
        begin = names_at + name
        yield cubin[begin : cubin.index(b"\0", begin)].decode(), offset, length, kind != 8


def read_parameters(info, kernel):
    """Takes parameters' offsets and sizes from a kernel's .nv.info section."""
    found, at = {}, 0
    while at + 4 <= len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == 4:
            if attribute == 0x17:  # KPARAM_INFO
                _, ordinal, offset, flags = struct.unpack_from("<IHHI", info, at)
                found[ordinal] = (offset, flags >> 18)
            at += value
    kernel.parameter_offsets = [found[i][0] for i in sorted(found)]
    kernel.parameter_sizes = [found[i][1] for i in sorted(found)]


def read_sections(cubin, kernels):
    for name, offset, size, has_bytes in sections_of(cubin):
        prefix, _, owner = name.lstrip(".").partition("._Z")
        kernel = kernels.get("_Z" + owner)
        if prefix == "nv.constant3":  # __constant__ variables, of all kernels
            for each in kernels.values():
                each.constants[3] = cubin[offset : offset + size]
        if kernel is None:
            continue
        if prefix == "nv.info":
            read_parameters(cubin[offset : offset + size], kernel)
        elif prefix.startswith("nv.constant") and has_bytes:
            kernel.constants[int(prefix[len("nv.constant") :])] = cubin[offset : offset + size]
        elif prefix == "nv.shared":
            kernel.shared_bytes = size


def kernels_of(binary, python_packages=(), wanted=""):
    """The sm_90 kernels of `binary`, by mangled name. `wanted`: a pattern that names must contain."""
    cuobjdump, nvdisasm = find_tools(python_packages)
    kernels = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [cuobjdump, "-xelf", ARCHITECTURE, str(pathlib.Path(binary).resolve())],
            cwd=folder, check=True, capture_output=True,
        )
        for path in sorted(pathlib.Path(folder).glob("*.cubin")):
            cubin = path.read_bytes()
            if wanted and not re.search(wanted.encode(), cubin):
                continue
            done = subprocess.run([nvdisasm, "-c", str(path)], check=True, capture_output=True, text=True)
            some = {n: k for n, k in parse(done.stdout).items() if re.search(wanted, n)}
            read_sections(cubin, some)
            kernels.update(some)
    return kernels
