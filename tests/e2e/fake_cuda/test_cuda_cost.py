# SPDX-License-Identifier: Apache-2.0
"""What saving a tensor on a device and giving it back costs the host, in calls and locks: no more than was measured
(docs/cuda.md). And how often a step may make the host, or another stream, wait although nobody asked for that: never.

With the CUDA engine itself, so that launches count, and each entry encoded: without a window."""

import json

import pytest

import fake_device
import harness
import programs

pytestmark = fake_device.engine_needed

INJECTOR = harness.BUILD / "lib/libe2e_no_memory.so"
STORED = {"derive": {"enabled": False}}
DEFAULT = {"version": 1, "policy": "default", "min_bytes": 0, "raw_window": 0, "guard": {"every_steps": 0}}


def layer(folder, policy=None):
    """What a layer costs forward and backward under the policy. It saves two tensors."""
    preload = f"{harness.BUILD / 'lib' / fake_device.ENGINE / 'libcinch.so'} " if policy is not None else ""
    extra = {"LD_PRELOAD": preload + str(INJECTOR)}
    folder.mkdir()
    env = harness.plain_environment()
    if policy is not None:
        env |= harness.preload_environment(folder, policy)
    run = harness.run(
        [harness.sys.executable, "-W", "ignore", harness.HERE / "fake_cuda/device_cost.py", INJECTOR],
        fake_device.fakecuda.environment(env | extra, schedule="eager", event_delay=0),
    )
    assert run.status == 0, run.stderr
    assert policy is None or run.report["active"]
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return layer(tmp_path_factory.mktemp("cost") / "plain")


def entries(plain, folder, policy):
    """What an entry costs that is stored, and one that is derived from it: saving and restoring."""
    stored, both = layer(folder / "stored", policy | STORED), layer(folder / "both", policy)
    found = {}
    for which, phase in enumerate(["save", "restore"]):
        alone = {name: (count - plain[which][name]) / 2 for name, count in stored[which].items()}
        found[f"{phase} stored"] = alone
        found[f"{phase} derived"] = {
            name: count - plain[which][name] - alone[name] for name, count in both[which].items()
        }
    return found


# A mean over 8 layers: half of one allows for what grows in steps, such as a list.
MORE = 0.5
STORED_SAVE = {"host allocations": 4.5, "locks": 5, "device allocations": 2, "launches": 1, "all calls": 8}
STORED_RESTORE = {"host allocations": 3, "locks": 4, "device allocations": 1, "launches": 1, "all calls": 6}
DERIVED_SAVE = {"host allocations": 13.5, "locks": 13, "all calls": 5}
# One launch computes GELU without its bias. What is decoded for it is kept for the stored entry's own node.
DERIVED_RESTORE = {"host allocations": 4, "locks": 20, "device allocations": 1, "launches": 1, "all calls": 8}
# Of two stored entries one shrinks by a block of memory, into which it is copied.
SIZED = {"host allocations": 6.5, "locks": 18, "device allocations": 2.5, "launches": 2, "copies": 0.5, "all calls": 12}
MEASURED = {
    "default": {
        "save stored": STORED_SAVE,
        "save derived": DERIVED_SAVE,
        "restore stored": STORED_RESTORE,
        "restore derived": DERIVED_RESTORE,
    },
    # Only the data decide what encoding comes to: the memory shrinks later. And one more allocation decodes. What is
    # decoded to restore the derived entry serves the stored one too.
    "lossless": {
        "save stored": SIZED,
        "save derived": DERIVED_SAVE | {"locks": 15, "device allocations": 0.5, "copies": 0.5, "all calls": 8},
        "restore stored": STORED_RESTORE | {"device allocations": 2, "all calls": 7},
        "restore derived": {"host allocations": 4, "locks": 16, "device allocations": 1, "all calls": 9},
    },
}
# As everywhere, what is quick runs with each change.
NAMES = [pytest.param("default", marks=pytest.mark.quick), "lossless"]


@pytest.mark.parametrize("name", NAMES)
def test_saving_and_restoring_cost_no_more_than_was_measured(plain, name, tmp_path):
    found = entries(plain, tmp_path, {"default": DEFAULT, "lossless": harness.LOSSLESS}[name])
    more = {
        what: {figure: count for figure, count in counts.items() if count > MEASURED[name][what].get(figure, 0) + MORE}
        for what, counts in found.items()
    }
    assert not any(more.values()), (more, found)


WAITS = (
    programs.BEGINNING
    + programs.MODEL
    + """
import fakecuda
control = fakecuda.control()
waits = []

def counts():
    return control.host_syncs(), control.implicit_syncs()

for step in range(steps):
    before = counts()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    waits.append([now - count for now, count in zip(counts(), before)])
print(json.dumps(waits))
"""
)
WAITING = {
    "default": DEFAULT,
    "lossless": harness.LOSSLESS,
    "budget": {"version": 1, "policy": "budget", "budget": {"ratio": 4}, "guard": {"every_steps": 0}},
}


@pytest.mark.parametrize(
    "fake",
    [{"schedule": "eager", "event_delay": 0}, {"schedule": "lazy", "event_delay": 2}],
    ids=["at once", "late"],
)
@pytest.mark.parametrize("stream", ["current", pytest.param("side", marks=pytest.mark.quick)])
@pytest.mark.parametrize("name", WAITING)
def test_a_step_makes_nobody_wait(name, stream, fake, tmp_path):
    """Neither by a call that waits, nor by one in which CUDA synchronizes by the way: memory that the driver
    allocates, copies of pageable memory, streams that are made, kernels that are loaded."""
    # After the 20 steps of budget's first trials, in which the host waits.
    run = fake_device.start(["-c", WAITS, "cuda", "30"], tmp_path, policy=WAITING[name] | {"stream": stream}, says=..., **fake)
    waits = json.loads(run.stdout)
    assert sum(map(sum, waits[:2])) > 0, "the first steps do all of that"
    # The data decide sizes of what is held without loss, and the side thread's pace how much is in use at once: memory may
    # grow once more in any step (docs/allocator.md).
    assert sum(map(any, waits[-8:])) <= 1, waits


RESERVED = (
    programs.BEGINNING
    + programs.MODEL
    + """
reserved = []
for step in range(steps):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    reserved.append(torch.cuda.memory_reserved())
print(json.dumps(reserved))
"""
)


@pytest.mark.parametrize("delay", [2, 6])
def test_late_events_let_memory_grow_no_more_than_with_pytorchs_allocator(delay, tmp_path):
    """Blocks that the side stream used come back as soon as they may."""

    def reserved(allocator):
        policy = harness.LOSSLESS | {"stream": "side", "allocator": {"cuda": allocator}}
        command = ["-c", RESERVED, "cuda", "100"]
        run = fake_device.start(command, tmp_path, policy=policy, says=..., schedule="lazy", event_delay=delay)
        return json.loads(run.stdout)

    ours, pytorchs = reserved(True), reserved(False)
    assert ours[-1] <= pytorchs[-1], (ours, pytorchs)
