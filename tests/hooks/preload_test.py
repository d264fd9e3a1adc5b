#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libcinch.so comes into every process of a run: it needs libc (and libdl) only, exports the
interposed functions only, and a process without torch does not notice it.

    preload_test.py BUILD_DIR
"""

import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv[1])
PRELOAD = BUILD / "lib" / "libcinch.so"
CORE = BUILD / "lib" / "libcinch_torch.so"

INTERPOSED = {
    "_ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE",
    "_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb",
    "_ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb",
    "_ZN5torch8autograd13SavedVariable14register_hooksEOSt10unique_ptrINS0_18SavedVariableHooks"
    "ESt14default_deleteIS3_EE",
}


def exported(library):
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {line.split()[-1] for line in lines}


class Preload(unittest.TestCase):
    def test_exports_the_interposed_functions_only(self):
        self.assertEqual(exported(PRELOAD), INTERPOSED)

    def test_core_exports_its_entry_points_only(self):
        self.assertEqual(exported(CORE), {"cinch_core_open", "cinch_host_allocator_json", "cinch_report_json"})

    def test_needs_libc_and_libdl_only(self):
        dynamic = subprocess.run(
            ["readelf", "-d", PRELOAD], capture_output=True, text=True, check=True
        ).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
        self.assertLessEqual(needed, {"libc.so.6", "libdl.so.2"})

    def test_silent_in_a_process_without_torch(self):
        run = subprocess.run(
            ["/bin/sh", "-c", "echo out; exit 3"],
            env={"LD_PRELOAD": str(PRELOAD)},
            capture_output=True,
            text=True,
        )
        self.assertEqual((run.returncode, run.stdout, run.stderr), (3, "out\n", ""))

    def test_torch_imports_resolve_to_us(self):
        # The names that torch's Python library binds are those that we define.
        torch_python = pathlib.Path(sys.argv[2]) / "lib" / "libtorch_python.so"
        undefined = subprocess.run(
            ["nm", "-D", "--undefined-only", torch_python], capture_output=True, text=True, check=True
        ).stdout
        for name in INTERPOSED - {
            "_ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb"
        }:
            self.assertIn(name, undefined)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
