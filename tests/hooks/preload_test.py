#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libcinch.so comes into every process of a run: it needs libc (and libdl) only, exports the
interposed functions only, a process without torch does not notice it, and a process with torch gets
the core that was built for it. And torch's libraries are what the core takes them for.

    preload_test.py BUILD_DIR TORCH_DIR
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1])
PRELOAD = BUILD / "lib" / "libcinch.so"
CORE = BUILD / "lib" / "libcinch_torch.so"
TORCH_LIBRARIES = pathlib.Path(sys.argv[2]) / "lib"

SET_ENGINE = "_ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE"
SAVED_VARIABLE = "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb"
SAVED_VARIABLE_OPTIONAL = "_ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb"
REGISTER_HOOKS = (
    "_ZN5torch8autograd13SavedVariable14register_hooksEOSt10unique_ptrINS0_18SavedVariableHooks"
    "ESt14default_deleteIS3_EE"
)
SUMS = {
    "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
    "_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE",
    "_ZN2at4_ops10sub_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
    "_ZN2at4_ops11sub__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE",
    "_ZN2at4_ops11rsub_Scalar4callERKNS_6TensorERKN3c106ScalarES8_",
    "_ZN2at4_ops15constant_pad_nd4callERKNS_6TensorEN3c108ArrayRefINS5_6SymIntEEERKNS5_6ScalarE",
    "_ZN2at4_ops12index_select4callERKNS_6TensorElS4_",
    "_ZN2at4_ops12index_Tensor4callERKNS_6TensorERKN3c104ListISt8optionalIS2_EEE",
}
INTERPOSED = SUMS | {SET_ENGINE, SAVED_VARIABLE, SAVED_VARIABLE_OPTIONAL, REGISTER_HOOKS}
ENGINE_VTABLE = "_ZTVN5torch8autograd6EngineE"

# hooks/torch/autograd/engine.h
ENGINE_FUNCTIONS = 12


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


@functools.cache
def exported(library):
    return {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()}


@functools.cache
def bound_when_loaded(library):
    """Names that the dynamic linker looks up for the library's code: the ones that can be interposed."""
    relocations = output("readelf", "-rW", library)
    return set(re.findall(r"R_X86_64_(?:JUMP_SLO\w*|GLOB_DAT)\s+\w+\s+(\w+)", relocations))


class Preload(unittest.TestCase):
    def test_exports_the_interposed_functions_only(self):
        self.assertEqual(exported(PRELOAD), INTERPOSED)

    def test_core_exports_its_entry_points_only(self):
        self.assertEqual(exported(CORE), {"cinch_core_open", "cinch_host_allocator_json", "cinch_report_json"})

    def test_needs_libc_and_libdl_only(self):
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", output("readelf", "-d", PRELOAD)))
        self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2"})

    def test_silent_in_a_process_without_torch(self):
        run = subprocess.run(
            ["/bin/sh", "-c", "echo out; exit 3"],
            env={"LD_PRELOAD": str(PRELOAD)},
            capture_output=True,
            text=True,
        )
        self.assertEqual((run.returncode, run.stdout, run.stderr), (3, "out\n", ""))


class Torch(unittest.TestCase):
    """What Cinch takes for granted about the binaries of the torch that the core was built for."""

    def test_exports_what_is_interposed(self):
        self.assertLessEqual(INTERPOSED, exported(TORCH_LIBRARIES / "libtorch_cpu.so"))

    def test_python_library_calls_through_the_dynamic_linker(self):
        found = bound_when_loaded(TORCH_LIBRARIES / "libtorch_python.so")
        self.assertLessEqual(SUMS | {SET_ENGINE, SAVED_VARIABLE, REGISTER_HOOKS}, found)

    def test_operators_call_through_the_dynamic_linker(self):
        found = bound_when_loaded(TORCH_LIBRARIES / "libtorch_cpu.so")
        self.assertLessEqual({SAVED_VARIABLE, SAVED_VARIABLE_OPTIONAL}, found)

    def test_engine_has_no_more_functions_than_are_copied(self):
        # Two words stand before the functions. engine_test.cpp looks at the slot itself.
        sizes = {}
        for line in output("nm", "-D", "-S", "--defined-only", TORCH_LIBRARIES / "libtorch_cpu.so").splitlines():
            fields = line.split()
            if fields[-1] == ENGINE_VTABLE:
                sizes[ENGINE_VTABLE] = int(fields[1], 16)
        self.assertLessEqual(sizes[ENGINE_VTABLE] // 8 - 2, ENGINE_FUNCTIONS)

    def test_version_is_told(self):
        self.assertIn("aoti_torch_abi_version", exported(TORCH_LIBRARIES / "libtorch_cpu.so"))


class ChoiceOfCore(unittest.TestCase):
    """libcinch.so takes the core that is named after torch's minor."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(PRELOAD, self.folder)

    def add_core(self, name):
        shutil.copy(CORE, self.folder / name)

    def start(self):
        """Whether Cinch is active in a process that imports torch, and what that process prints."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_")}
        env |= {"LD_PRELOAD": str(self.folder / PRELOAD.name), "CINCH_POLICY": "division"}
        program = "import torch; print('libcinch_torch' in open('/proc/self/maps').read())"
        run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        said = [line for line in run.stderr.splitlines() if line.startswith("cinch")]
        return run.stdout.strip() == "True", said

    def test_by_minor(self):
        self.add_core(CORE.resolve().name)
        (self.folder / "libcinch_torch-9.9.so").write_text("for another torch")
        (self.folder / "libcinch_torch.so").write_text("must not be looked at")
        self.assertEqual(self.start(), (True, []))

    def test_without_a_minor_in_its_name(self):
        self.add_core("libcinch_torch.so")
        self.assertEqual(self.start(), (True, []))

    def test_none_for_this_torch(self):
        for name in ("libcinch_torch-9.8.so", "libcinch_torch-9.9.so"):
            self.add_core(name)
        active, said = self.start()
        self.assertFalse(active)
        self.assertRegex(
            "\n".join(said), r"^cinch: inactive: torch [\d.]+ found, built for torch 9\.[89], 9\.[89]$"
        )

    def test_none_at_all(self):
        active, said = self.start()
        self.assertFalse(active)
        self.assertRegex("\n".join(said), r"^cinch: inactive: torch [\d.]+ found, and no core [^\n]*$")

    def test_unreadable(self):
        (self.folder / CORE.resolve().name).write_text("not a library")
        active, said = self.start()
        self.assertFalse(active)
        self.assertRegex("\n".join(said), r"^cinch: inactive: can't load the core: [^\n]*$")


class OtherTorches(unittest.TestCase):
    """Torches whose library has another name, or lacks what libcinch.so stands in front of."""

    def start(self, library):
        """What a process prints that loads such a torch as Python loads extensions: RTLD_LOCAL."""
        program = f"import ctypes; print(ctypes.CDLL({str(BUILD / 'tests/hooks' / library)!r}).import_torch())"
        env = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_")} | {"LD_PRELOAD": str(PRELOAD)}
        run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip(), run.stderr

    def test_found_by_its_functions(self):
        called, said = self.start("libtorch_cpu.so.2.6")
        self.assertEqual(called, "1")
        self.assertRegex(said, r"^cinch: inactive: torch 2\.6 found, [^\n]*\n$")

    def test_without_them_inactive(self):
        called, said = self.start("libfake_torch_without.so")
        self.assertEqual(called, "0")
        self.assertRegex(said, r"^cinch: inactive: [^\n]*not found\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
