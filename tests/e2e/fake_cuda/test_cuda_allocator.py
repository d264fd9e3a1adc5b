# SPDX-License-Identifier: Apache-2.0
"""The CUDA allocator behind PyTorch's interface, on the fake CUDA runtime: what programs get from it is
what they get from PyTorch's own, bit for bit, but for the memory that fragmentation takes."""

import functools
import json
import subprocess
import sys

import pytest

import fake_device
import harness
from fake_device import fakecuda

pytestmark = fake_device.needed

PROGRAMS = harness.HERE / "fake_cuda/cuda_allocator"

MB = 2**20
# The allocator alone: nothing is compressed.
ALONE = {"version": 1, "policy": "off", "allocator": {"cuda": True}}
SETTINGS = "PYTORCH_CUDA_ALLOC_CONF"


def run(program, folder, policy=None, arguments=(), extra=None, **options):
    """What the program printed, and its stderr. Without a policy: plain PyTorch."""
    env = harness.plain_environment(extra)
    if policy is not None:
        env |= harness.preload_environment(folder, policy)
        env["LD_PRELOAD"] = str(harness.BUILD / "lib/fakecuda/libcinch.so")
    env = fakecuda.environment(env, **options)
    done = harness.run([sys.executable, "-W", "ignore", PROGRAMS / program, *arguments], env)
    assert done.status == 0, f"{done.stdout}\n{done.stderr}"
    assert "fakecuda:" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cuda_allocator")


@pytest.fixture(scope="module")
def interface(folder):
    hooks = {"E2E_HOOKS": str(harness.BUILD / "lib/libe2e_cuda_hooks.so")}
    options = {"devices": 2, "memory": 256 * MB, "event_delay": 2, "extra": hooks}
    return run("interface.py", folder, **options)[0], run("interface.py", folder, ALONE, **options)[0]


def without_own(result):
    return {key: value for key, value in result.items() if not key.startswith("own.")}


def test_answers_are_pytorchs(interface):
    """Figures and their names, snapshots in memory_viz, pools, graphs, streams, fractions, running out
    of memory and recovering, devices, threads."""
    plain, ours = map(without_own, interface)
    different = {key: (plain.get(key), ours.get(key)) for key in plain | ours if plain.get(key) != ours.get(key)}
    assert not different, different


@pytest.mark.quick
def test_answers_are_right(interface):
    ours = interface[1]
    assert ours["record_stream"] == [True, False], "a block was used again too early, or nothing can be seen of it"
    assert ours["fraction.kept"] is True and ours["oom.recovered"] is True
    assert ours["oom.count"] == ours["oom.observed"] == 2
    assert ours["snapshot.frames"] is True
    assert ours["off.calls"] == [1, 1] and ours["off.allocated"] == 5 * MB and ours["own.off.served"]
    assert ours["peers"] == [True, True, True, 0], "by a plain copy, which needs access to what is mapped"
    assert ours["pool.use_on_oom"] == ["out of memory", True]
    assert ours["tracker.blocks"] == [2, 0] and ours["tracker.left"] == ours["tracker.wrong"] == 0
    assert ours["annotations"] == [["START", "an annotation"], ["END", "an annotation"]]
    assert ours["graph"] == [7.0] * 3 and ours["graph.pools"] == [False, True]
    assert ours["emptied"] == [0, 0] and ours["left"] == [0, 0]
    assert ours["own.faults"] == 0


@pytest.mark.quick
def test_memory_is_ours(interface):
    plain, ours = interface[0]["own.figures"], interface[1]["own.figures"]
    assert plain is None
    assert ours["allocations"] > 300 and ours["used_blocks"] == 0


TRAININGS = {
    "plain": (None, {}, {}),
    "lazy": (ALONE, {}, {"poison": True, "schedule": "lazy"}),
    "random": (ALONE, {SETTINGS: "expandable_segments:True"}, {"poison": True, "schedule": "random:5", "event_delay": 3}),
    "settings": (ALONE, {SETTINGS: "max_split_size_mb:64,backend:native"}, {}),
    "stash": (harness.LOSSLESS, {}, {"poison": True, "schedule": "random:6"}),
    "other backend": (ALONE, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, {}),
    "not wanted": (harness.LOSSLESS | {"allocator": {"cuda": False}}, {}, {"poison": True, "schedule": "random:7"}),
    "off": ("off", {}, {}),
}


@pytest.fixture(scope="module")
def training(folder):
    @functools.cache
    def outcome(name):
        policy, extra, options = TRAININGS[name]
        return run("training.py", folder, policy, extra=extra, **options)

    return outcome


@pytest.mark.parametrize("name", [name for name in TRAININGS if name != "plain"])
def test_losses_are_plains_bit_for_bit(training, name):
    plain, outcome = training("plain")[0], training(name)[0]
    assert outcome["losses"] == plain["losses"]
    assert outcome["faults"] == 0
    ours = name in ("lazy", "random", "settings", "stash")
    assert (outcome["figures"] is not None) == ours
    if ours:
        # The stash keeps memory for the moment when there is none left.
        assert outcome["allocated"] == plain["allocated"] or name == "stash"
        assert outcome["figures"]["allocations"] > 300 and outcome["figures"]["failures"] == 0


def test_settings_without_effect_are_named_in_one_line(training):
    lines = harness.new_lines(training("settings")[1], training("plain")[1])
    assert len(lines) == 1 and "max_split_size_mb" in lines[0] and SETTINGS in lines[0], lines
    for name in ("lazy", "random", "stash", "off"):
        assert harness.new_lines(training(name)[1], training("plain")[1]) == []


@pytest.mark.parametrize("policy", [ALONE, "division"], ids=["alone", "stash"])
def test_every_call_of_the_driver_may_fail(folder, policy):
    """Under "division" with encoded activations in the same memory, and a stash that is asked for it."""
    outcome, _ = run("failures.py", folder, policy, memory=72 * MB, schedule="lazy")
    for call in ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "cudaEventRecord"):
        assert outcome["failed_calls"][call] > 5, call
    assert outcome["failed_steps"] > 5, "nothing ran out of memory: the failures did not matter"
    assert outcome["figures"]["stitches"] > 50 and outcome["faults"] == 0


@pytest.mark.parametrize("schedule", ["lazy", "random:4"])
def test_memory_moves_while_the_device_works_with_it(folder, schedule):
    """What is computed is plain's, though handles have second addresses meanwhile."""
    plain, _ = run("moving.py", folder)
    ours, _ = run("moving.py", folder, ALONE, schedule=schedule, poison=True, event_delay=8)
    assert ours["sums"] == plain["sums"]
    assert ours["faults"] == 0 and ours["left"] == [0, 0]
    figures = ours["figures"]
    assert figures["moved_early_bytes"] > 100 * MB and figures["leaving"] < figures["moved_early_bytes"]
    assert figures["host_waits"] == 0 and figures["fault"] == ""


def test_trains_where_plain_runs_out_of_memory_by_fragmentation_alone(folder):
    """Each seed has 6 % and 4 MiB (two pages: one of small blocks, and rounding) more memory than it uses
    at once. Of 26, at least 20 run out of it plainly; none does under Cinch."""
    plenty = run("fragmentation.py", folder)[0]["seeds"]
    limits = [str(int(seed["peak"] * 1.06) + 4 * MB) for seed in plenty]
    plain = run("fragmentation.py", folder, arguments=limits)[0]["seeds"]
    ours = run("fragmentation.py", folder, ALONE, arguments=limits)[0]["seeds"]
    assert sum(seed["losses"] is None for seed in plain) >= 20
    assert [seed["losses"] for seed in ours] == [seed["losses"] for seed in plenty]


PRELOADS = {"plain": "lib/libfakecuda.so", "cinch": "lib/libfakecuda.so lib/fakecuda/libcinch.so"}


@pytest.mark.parametrize(("sender", "receiver"), [("cinch", "cinch"), ("cinch", "plain"), ("plain", "cinch")])
def test_tensors_are_shared_with_other_processes(folder, sender, receiver):
    """Whoever of the two has Cinch. What lies on handles of several sizes has no name in PyTorch's words:
    a receiver without Cinch says so."""
    preload = " ".join(str(harness.BUILD / library) for library in PRELOADS[receiver].split())
    extra = harness.preload_environment(folder, ALONE) | {"RECEIVER_PRELOAD": preload}
    del extra["LD_PRELOAD"]
    outcome, _ = run("sharing.py", folder, ALONE if sender == "cinch" else None, extra=extra,
                     memory=700 * MB, schedule="random:3", poison=True)  # fmt: skip
    theirs = outcome["receiver"]
    assert theirs["preloaded"] == (receiver == "cinch")
    assert outcome["exit"] == 0 and outcome["faults"] == theirs["faults"] == 0
    all_of_them = ["small", "view 1", "view 2", "large", "mixed"]
    if (sender, receiver) == ("cinch", "plain"):
        assert "shareable handle" in theirs["mixed.error"]
        all_of_them.remove("mixed")
    assert theirs["received"] == all_of_them
    assert theirs["wrong"] == outcome["wrong"] == [] and theirs["one storage"]
    assert outcome["from receiver"] and theirs["written by the other"]
    # Nothing allocated, nothing of the device used, nothing mapped. What was never received PyTorch keeps.
    assert theirs["left"] == [0, 0, 0], theirs["left"]
    kept = 0 if "mixed" in all_of_them else 300 * MB
    assert outcome["left"][:2] == [kept, kept] and (outcome["left"][2] == 0) == (kept == 0), outcome["left"]
    if kept == 0:
        assert outcome["descriptors"] <= 2, "but for the socket and the queues' own"


def test_a_torch_without_cuda_needs_nothing_of_it():
    """The core itself needs none of CUDA's libraries: those are the plug-in's."""

    def needed(library):
        text = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        return [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]

    assert not [name for name in needed(harness.CORE) if "cuda" in name or "cudart" in name]
    plugin = harness.CORE.resolve()
    plugin = plugin.with_name(plugin.name.replace("libcinch_torch-", "libcinch_torch_cuda-"))
    assert "libc10_cuda.so" in needed(plugin)
    assert not [name for name in needed(plugin) if name.startswith(("libcuda.so", "libtorch"))]
