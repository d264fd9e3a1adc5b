# SPDX-License-Identifier: Apache-2.0
"""CUDA without a GPU: programs on the fake runtime (docs/fakecuda.md) compute what they do on the CPU.

Programs run once for each configuration; a test is one of their checks.
"""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

from fake_device import fakecuda
from harness import BUILD, ROOT, plain_environment, run

PROGRAMS = ROOT / "tests/fakecuda"

if not fakecuda.available():
    pytest.skip("the fake CUDA runtime was not built: this torch has no CUDA", allow_module_level=True)

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
CONFIGURATIONS = {
    "eager": ({}, {"poison": True}),
    "lazy": (EXPANDABLE, {"schedule": "lazy", "event_delay": 2}),
    "random": ({}, {"schedule": "random:1", "poison": True, "event_delay": 2}),
}


def checks_of(program: str, pattern: str) -> list[str]:
    return re.findall(pattern, (PROGRAMS / program).read_text(), re.MULTILINE)


@functools.cache
def results(program: str, configuration: str) -> dict:
    extra, options = CONFIGURATIONS[configuration]
    env = fakecuda.environment(plain_environment(extra), devices=2, memory=1 << 30, **options)
    done = run([sys.executable, "-W", "ignore", PROGRAMS / program], env)
    assert done.status == 0, f"{done.stdout}\n{done.stderr}"
    assert "fakecuda:" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("check", [*checks_of("features.py", r"^def (check_\w+)"), "faults"])
def test_feature(check, configuration):
    failure = results("features.py", configuration)[check]
    assert failure is None, failure


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("model", checks_of("training.py", r"^class (\w+)\(nn.Module\)"))
def test_training_equals_the_cpus(model, configuration):
    different = results("training.py", configuration)[model]
    assert different is None, different


@pytest.mark.parametrize("model", checks_of("published.py", r"^def (\w+)\(\):"))
def test_training_published_models_equals_the_cpus(model):
    different = results("published.py", "random")[model]
    assert different is None, different


def symbols(library: pathlib.Path, kind: str) -> set[str]:
    listing = subprocess.run(["nm", "-D", kind, library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines() if line}


@pytest.mark.quick
def test_every_symbol_that_torch_imports_is_exported():
    exported = symbols(BUILD / "lib/libfakecuda.so", "--defined-only")
    wanted = set()
    for library in (pathlib.Path(torch.__file__).parent / "lib").glob("*.so"):
        wanted |= {
            name
            for name in symbols(library, "--undefined-only")
            # The runtime's and the driver's, not those of cuBLAS, cuDNN, cuFile…
            if re.match(r"(cuda[A-Z]|__cuda[A-Z]|cu(Init|Ctx|Device|Driver|Event|Func|Get|Graph|Kernel|Launch|Library|"
                        r"Link|Mem|Module|Occupancy|Pointer|Stream|Tensor)[A-Z_]?)", name)
        }
    assert len(wanted) > 90
    assert wanted <= exported, wanted - exported


def test_every_driver_function_that_torch_asks_for_by_name_is_there():
    """They are asked for when the first segment is mapped; none may be missing."""
    env = fakecuda.environment(plain_environment(EXPANDABLE))
    program = "import torch; torch.ones(3, device='cuda')"
    done = run([sys.executable, "-c", program], env)
    assert done.status == 0 and "fakecuda:" not in done.stderr, done.stderr


UNREPRESENTED = {
    "a call": (
        "raise SystemExit(ctypes.CDLL(None).cudaMallocAsync() != 0)",
        "cudaMallocAsync is not represented",
    ),
    "a driver function": (
        "f = ctypes.c_void_p(); q = ctypes.c_int(); cuda = ctypes.CDLL('libcuda.so.1');"
        "cuda.cudaGetDriverEntryPointByVersion(b'cuFly', ctypes.byref(f), 13000, 0, ctypes.byref(q));"
        "assert not f.value and q.value == 1; raise SystemExit(1)",
        "no driver function cuFly",
    ),
    "a kernel": ("torch.ones(3, device='cuda')", "has no implementation on the host"),
}


@pytest.mark.parametrize("what", UNREPRESENTED)
def test_what_is_not_represented_fails_with_its_name(what):
    program, words = UNREPRESENTED[what]
    env = fakecuda.environment(plain_environment(), executor=what != "a kernel")
    done = run([sys.executable, "-c", f"import ctypes, torch; {program}"], env)
    assert done.status == 1
    assert re.search(rf"fakecuda: .*{words}", done.stderr), done.stderr


def test_without_computing_the_allocator_is_asked_for_the_same():
    """The same sizes in the same order, and the same are freed, in an order that PyTorch itself does not keep from run
    to run; then a training of shapes that no machine for tests can hold."""

    def outcome(compute):
        env = fakecuda.environment(plain_environment(), compute=compute, memory=512 << 30)
        done = run([sys.executable, "-W", "ignore", PROGRAMS / "shapes.py"], env)
        assert done.status == 0 and "fakecuda:" not in done.stderr, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    computed, shapes = outcome(True), outcome(False)
    sizes = {}
    for name, found in (("computed", computed), ("shapes", shapes)):
        allocated = [size for action, size in found["history"] if action == "alloc"]
        freed = sorted(size for action, size in found["history"] if action == "free_requested")
        assert len(allocated) + len(freed) == len(found["history"])
        sizes[name] = allocated, freed
    assert sizes["shapes"] == sizes["computed"] and len(computed["history"]) > 500
    assert shapes["peak"] > 20 << 30 and shapes["resident"] < 2 << 30
    assert shapes["refusal"] == "aten::nonzero needs values, and FAKECUDA_COMPUTE is 0"
    assert computed["faults"] == shapes["faults"] == 0


def test_every_call_is_traced(tmp_path):
    trace = tmp_path / "trace"
    env = fakecuda.environment(plain_environment(), trace=trace)
    assert run([sys.executable, "-c", "import torch; torch.ones(3, device='cuda')"], env).status == 0
    assert re.search(r"^\d+ cudaMalloc 2097152$", trace.read_text(), re.MULTILINE)


def test_failures_come_from_the_environment():
    env = fakecuda.environment(plain_environment(), fail="cudaMalloc:1,cudaMalloc:2")
    done = run([sys.executable, "-c", "import torch; torch.ones(3, device='cuda')"], env)
    assert done.status == 1 and "OutOfMemoryError" in done.stderr


def test_a_forked_child_cannot_use_what_its_parent_initialised():
    program = """
import os, torch
torch.ones(3, device="cuda")
pid = os.fork()
if pid == 0:
    try:
        torch.cuda.current_stream().synchronize()
    except RuntimeError:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert torch.ones(3, device="cuda").sum().item() == 3
"""
    done = run([sys.executable, "-c", program], fakecuda.environment(plain_environment()))
    assert done.status == 0, done.stderr


@pytest.mark.quick
def test_it_goes_with_cinch():
    """Both preloaded by `cinch run`: the program trains as ever, and Cinch leaves CUDA tensors alone or
    keeps them right."""
    program = """
import torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.Linear(256, 1))
x = torch.randn(64, 256)
def gradient(device):
    n = m.to(device)
    n.zero_grad()
    n(x.to(device)).sum().backward()
    return n[0].weight.grad.cpu()
assert torch.equal(gradient("cpu"), gradient("cuda"))
"""
    env = fakecuda.environment(plain_environment({"CINCH_POLICY": "lossless"}))
    done = run([BUILD / "bin/cinch", "run", "--", sys.executable, "-c", program], env)
    assert done.status == 0, done.stderr
    assert os.path.exists(BUILD / "lib/libcinch.so")
