# SPDX-License-Identifier: Apache-2.0
"""The allocator on the real driver: everything that a program may ask of PyTorch's, what a cached
block costs, and PyTorch's own tests of it."""

import concurrent.futures
import os
import sys
import xml.etree.ElementTree as ElementTree

from context import BUNDLE, Context, Failure, NotHere
from stages.codecs import verdict_of

# Both of Cinch's allocators, and hooks that take nothing.
ALLOCATORS = {"version": 1, "policy": "lossless", "min_bytes": 2**52}
PYTORCH_TESTS = "memory or caching or mempool or mem_pool or snapshot or oom or graph or ipc or stream or pinned"


def adapter(ctx: Context):
    if not ctx.has_cuda_allocator():
        raise NotHere("this build has no libcinch_torch_cuda: PyTorch's own allocator stays")


def interface(ctx: Context):
    """The same program under both allocators; PyTorch's is the check of the program."""
    results = {}
    for name, policy in {"PyTorch's": None, "Cinch's": ALLOCATORS}.items():
        title = f"what programs ask, {name} allocator"
        if policy is not None and not ctx.has_cuda_allocator():
            ctx.row(title, "not run", "this build has no libcinch_torch_cuda")
            continue
        results = ctx.python("programs/allocator_interface.py", policy=policy, limit=90, fake_memory=2 << 30).last_json()
        if policy is not None and not results["cuda_allocator"]:
            raise Failure("Cinch's CUDA allocator was not in place")
        wrong = {check: text for check, text in results["checks"].items() if text is not None}
        skipped = {check: text for check, text in wrong.items() if text.startswith("not here")}
        broken = {check: text for check, text in wrong.items() if check not in skipped}
        good = len(results["checks"]) - len(wrong)
        figure = f"{good} of {len(results['checks'])} passed"
        for part in (broken, skipped):
            figure += "".join(f"; {check}: {text}" for check, text in part.items())
        ctx.row(title, "failed" if broken else "passed", figure, **results)


def cost(ctx: Context):
    """Host time of a cached allocation and its free, through PyTorch's interface."""
    library = ctx.build / "lib/libdevice_allocator_cost.so"
    if not library.exists():
        raise NotHere("this build has no lib/libdevice_allocator_cost.so")
    for name, policy in {"PyTorch's": None, "Cinch's": ALLOCATORS}.items():
        title = f"cached alloc + free, {name} allocator"
        if policy is not None and not ctx.has_cuda_allocator():
            ctx.row(title, "not run", "this build has no libcinch_torch_cuda")
            continue
        pairs = "2000" if ctx.tiny else "200000"
        found = ctx.python("programs/allocator_cost.py", str(library), "--pairs", pairs, policy=policy, limit=60).last_json()
        worst = max(found["p50_ns"].values())
        text = ", ".join(f"{size} B {ns:.0f} ns" for size, ns in found["p50_ns"].items())
        if policy is None:
            ctx.row(title, "measured", f"p50 {text}", **found)
        else:
            ctx.compare(title, worst, 150, f"p50 {text}", at_most=True, **found)


def core(ctx: Context):
    """Cinch's allocator without PyTorch, over the driver that is here."""
    title = "the core over the driver"
    done = ctx.run([ctx.binary("device_allocator_test")], limit=90)
    passed, skipped, failed = verdict_of([done.stdout])
    figure = f"{passed} passed, {len(failed)} failed, {skipped} skipped"
    if done.status != 0 or failed or skipped or not passed:
        raise Failure(f"{figure}; exit status {done.status}: {', '.join(failed)}")
    ctx.row(title, "passed", figure)


def driver_cost(ctx: Context):
    """What stitching costs: the driver's calls, also beside a kernel, for which a call should not wait."""
    found = ctx.python("programs/driver_cost.py", *(["--rounds", "3"] if ctx.tiny else []), limit=60).last_json()
    for size, times in found["us"].items():
        text = ", ".join(f"{call} {us:.0f} ({times['busy'][call]:.0f})" for call, us in times["idle"].items())
        waited = f"the kernel was waited for in {found['waited'][size]} of {found['rounds']} rounds"
        ctx.row(f"driver's calls, {size}", "measured", f"us idle (beside a kernel): {text}; {waited}", **times)


def pytorch_tests(ctx: Context):
    tests = BUNDLE / "pytorch-tests/test_cuda.py"
    if ctx.fake:
        raise NotHere("PyTorch's CUDA tests need a GPU")
    if not tests.exists():
        raise NotHere("the bundle holds no test_cuda.py (scripts/gpu-bundle --torch-tests)")
    adapter(ctx)

    def outcomes(name: str, policy, which: list, limit: float) -> dict[str, str]:
        results = ctx.scratch / f"test_cuda-{name}.xml"
        env = ctx.environment(policy)
        env["PYTHONPATH"] += os.pathsep + str(BUNDLE / "packages")
        ctx.run([sys.executable, "-m", "pytest", "--noconftest", "-q", "-p", "no:cacheprovider", "--timeout=30",
                 f"--junitxml={results}", *which], env, limit)  # fmt: skip
        try:
            cases = ElementTree.parse(results).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError):
            raise Failure(f"pytest left no results in {limit:.0f} s ({name})") from None
        found = {}
        for case in cases:
            bad = case.find("failure") is not None or case.find("error") is not None
            found[f"{case.get('classname')}::{case.get('name')}"] = (
                "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
            )
        return found

    with concurrent.futures.ThreadPoolExecutor() as pool:
        all_of_them = ["-n", "4", "-k", PYTORCH_TESTS, tests]
        runs = [("plain", None), ("cinch", ALLOCATORS)]
        plain, own = pool.map(lambda pair: outcomes(*pair, all_of_them, ctx.remaining() * 0.75), runs)
    passing = [test for test, outcome in plain.items() if outcome == "passed"]
    newly = [test for test in passing if own.get(test) != "passed"]
    if newly and ctx.remaining() > 8:
        # Again, alone: tests that want much of the memory disturb each other.
        nodes = [f"{tests}::{test.split('test_cuda.')[-1]}" for test in newly]
        again = outcomes("again", ALLOCATORS, nodes, ctx.remaining() - 2)
        newly = [test for test in newly if again.get(test) != "passed"]
    figure = f"{len(passing)} pass plainly, of which {len(newly)} not under Cinch's allocator"
    if newly:
        figure += ": " + ", ".join(test.rsplit("::")[-1] for test in newly[:8])
    if not passing:
        raise Failure("no test passed plainly")
    # One of another version of PyTorch may look into its allocator's insides: a person decides.
    ctx.row("PyTorch's CUDA memory tests", "failed" if newly else "passed", figure, newly=newly, plain=len(passing))


def run(ctx: Context):
    ctx.check("the core over the driver", core, ctx)
    ctx.check("driver's calls", driver_cost, ctx)
    ctx.check("what programs ask", interface, ctx)
    ctx.check("cached alloc + free", cost, ctx)
    ctx.check("PyTorch's CUDA memory tests", pytorch_tests, ctx)
