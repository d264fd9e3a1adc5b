# SPDX-License-Identifier: Apache-2.0
"""Unmodified training on "cuda" tensors, on the fake runtime: Cinch's side of it, whatever the order in which
a device may do its work. What is freed is overwritten (poison), so that what is read too late shows."""

import json
import sys

import pytest

import harness

sys.path.insert(0, str(harness.HERE.parent / "fakecuda"))
import fakecuda

pytestmark = pytest.mark.skipif(not fakecuda.available(), reason="this build has no fake CUDA runtime")

MODELS = ["unet", "lstm", "resnet18", "vit_tiny", "bert_tiny", "gpt2_tiny"]
# With the same operators on both devices, and so the same random numbers of a policy's.
SAME_OPERATORS = ["unet", "lstm_by_hand", "resnet18", "vit_tiny", "bert_tiny", "gpt2_tiny"]
SMALL = MODELS[:2]  # which need no library that takes seconds to import
STEPS = 3
# Without a window: how much fits depends on what else each device can hold in fewer bytes. Without the preset's rules and
# "others": the CPU holds factors of two values in a bit, which a device does not.
DIVISION = {"version": 1, "policy": "division", "preset_rules": False, "guard": {"every_steps": 0}, "raw_window": 0}
LOSSLESS = harness.LOSSLESS
# All that is held leaves the device, encoded or raw.
OFFLOAD = {"offload": {"enabled": True, "min_bytes": 0}}


def start(arguments, folder, device="cuda", policy=None, says="", codecs="fakecuda", extra=None, **fake) -> harness.Run:
    """Runs Python with `arguments`; it must succeed and Cinch, given a policy, must be active and print no line,
    or the one that contains `says`, or anything (...). `codecs`: the installation's folder (docs/fakecuda.md). `extra`
    goes into the environment."""
    folder.mkdir(parents=True, exist_ok=True)
    env = harness.plain_environment(extra)
    if policy is not None:
        env |= harness.preload_environment(folder, policy)
        env["LD_PRELOAD"] = str(harness.BUILD / "lib" / codecs / "libcinch.so")
    if device == "cuda":
        env = fakecuda.environment(env, **fake)
    run = harness.run([sys.executable, "-W", "ignore", *arguments], env)
    assert run.status == 0, f"{run.stdout}\n{run.stderr}"
    if policy is not None:
        assert run.report["active"], run.report["inactive_reason"]
        assert run.report["stash_bytes_at_exit"] == 0
        if says is ...:
            return run
        assert says in run.stderr and len(run.stderr.splitlines()) == (1 if says else 0), run.stderr
    return run


def train(folder, models, schedules, device="cuda", policy=None, steps=STEPS, dropout="with-dropout", **options):
    """What cuda_zoo.py found under each schedule, and the report."""
    program = [harness.HERE / "cuda_zoo.py", device, steps, dropout, ",".join(schedules), *models]
    run = start(program, folder, device, policy, **options)
    return json.loads(run.stdout), run.report


def check_same(found, expected, models):
    """Each is an outcome of the models' training under one schedule."""
    for model in models:
        assert found[model]["losses"] == expected[model]["losses"], model
        assert found[model]["parameters"] == expected[model]["parameters"], model
        assert found[model]["faults"] == 0, model
        # On the CPU nobody counts.
        assert found[model]["host_syncs"] == expected[model].get("host_syncs", 0), "Cinch waited for the device"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), MODELS, ["eager"])[0][0]


@pytest.fixture(scope="module")
def divided(tmp_path_factory):
    rounds = ["", ""]
    return train(tmp_path_factory.mktemp("cpu"), SAME_OPERATORS, rounds, "cpu", DIVISION, dropout="no-dropout")[0]


# Events that have happened say so late, and the lazy schedule lets none happen before somebody waits.
LATE = {"event_delay": 2, "poison": True}
BOUND = 300_000


def test_sources_that_wait_for_the_side_stream_are_bounded(plain, tmp_path):
    raw = {"rules": [{"match": {"op": "*"}, "codec": {"name": "raw"}}], "stream": "side"}
    policy = LOSSLESS | raw | {"in_flight_bytes": f"{BOUND}B"}
    schedules, report = train(tmp_path, SMALL, ["lazy", "random:6"], policy=policy, **LATE)
    for found in schedules:
        check_same(found, plain, SMALL)
    (device,) = report["devices"]
    assert 0 < device["in_flight_bytes_at_most"] <= BOUND, "and no source is larger"
    assert device["encodes_held_back"] > 0


CINCHS, PYTORCHS = {}, {"allocator": {"cuda": False}}
STREAMS = [
    pytest.param("current", CINCHS, ["random:1"], id="current"),
    pytest.param("side", CINCHS, ["lazy", "random:2"], id="side"),
    pytest.param("side", PYTORCHS, ["lazy", "random:3"], id="side, PyTorch's allocator"),
]
over_streams = pytest.mark.parametrize("stream, allocator, schedules", STREAMS)


@over_streams
def test_lossless_is_plain(plain, stream, allocator, schedules, tmp_path):
    outcomes, report = train(tmp_path, MODELS, schedules, policy=LOSSLESS | allocator | {"stream": stream}, **LATE)
    for found in outcomes:
        check_same(found, plain, MODELS)
    assert [device["allocator"] for device in report["devices"]] == ["Cinch" if allocator == CINCHS else "PyTorch"]


@over_streams
def test_division_is_the_cpus(divided, stream, allocator, schedules, tmp_path):
    policy = DIVISION | allocator | {"stream": stream}
    outcomes, _ = train(tmp_path, SAME_OPERATORS, schedules, policy=policy, dropout="no-dropout", poison=True)
    for found, expected in zip(outcomes, divided):
        check_same(found, expected, SAME_OPERATORS)


@pytest.mark.parametrize("stream", ["current", "side"])
def test_dithered_groups_are_the_cpus(stream, tmp_path):
    """Nothing is derived: on a device that is proved some entries later than on the CPU."""
    policy = DIVISION | {"policy": "default", "derive": {"enabled": False}, "stream": stream}
    models = SAME_OPERATORS[:2]
    (expected,), _ = train(tmp_path / "cpu", models, [""], "cpu", policy, dropout="no-dropout")
    (found,), report = train(tmp_path / "cuda", models, ["random:5"], policy=policy, dropout="no-dropout", poison=True)
    check_same(found, expected, models)
    assert any("dithered" in row["codec"] for row in report["ops"])


@over_streams
def test_offload_changes_nothing(plain, stream, allocator, schedules, tmp_path):
    policy = LOSSLESS | OFFLOAD | allocator | {"stream": stream}
    outcomes, report = train(tmp_path, SMALL, schedules, policy=policy, **LATE)
    for found in outcomes:
        check_same(found, plain, SMALL)
    assert report["offloads"] > 100 and report["stored_bytes_at_peak"] < report["offloaded_bytes_at_peak"]
    # The first step of each model knows no order yet.
    assert report["fetches"] / 2 < report["fetches_ahead"] < report["fetches"]


def test_offload_of_what_division_encoded_is_the_cpus(divided, tmp_path):
    models = SAME_OPERATORS[:2]  # what comes before decides the random numbers
    policy = DIVISION | OFFLOAD | {"stream": "side"}
    outcomes, _ = train(tmp_path, models, ["random:4"], policy=policy, dropout="no-dropout", poison=True)
    check_same(outcomes[0], divided[0], models)


@pytest.mark.parametrize(
    "offload",
    [pytest.param({}, id="on device"), pytest.param(OFFLOAD, id="offload", marks=pytest.mark.quick)],
)
def test_nothing_leaks(offload, tmp_path):
    policy = DIVISION | {"stream": "side"} | offload
    (found,), _ = train(tmp_path, ["unet"], ["random:3"], policy=policy, steps=50, poison=True)
    assert found["unet"]["growth"] == 0


NO_ROOM = "cinch: offload: the host has no more page-locked memory"


# Refused are the memory for what is moved, and that for what a device tells: sizes that encoding comes to, and whether
# what was computed is what was saved.
@pytest.mark.parametrize(
    "host_bytes, fail",
    [("100KiB", ""), ("1GiB", "cudaHostAlloc:1:2,cudaHostAlloc:2:2,cudaHostAlloc:3:2")],
    ids=["cap", "refused"],
)
def test_what_finds_no_room_on_the_host_stays(plain, host_bytes, fail, tmp_path):
    policy = LOSSLESS | {"offload": {"enabled": True, "min_bytes": 0, "host_bytes": host_bytes}}
    (found,), report = train(tmp_path, ["unet"], ["eager"], policy=policy, says=NO_ROOM, poison=True, fail=fail)
    assert found["unet"]["losses"] == plain["unet"]["losses"]
    assert found["unet"]["faults"] == 0
    assert report["peak_pinned_bytes"] <= report["reserved_pinned_bytes"]
    if not fail:
        assert 0 < report["peak_pinned_bytes"] <= 100 << 10


BIG = """
import json
import torch
from torch import nn
torch.backends.cudnn.enabled = False
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [nn.Conv2d(3, 8, 1)]
for _ in range(30):
    layers += [nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 3, 64, 64, device="cuda"), torch.arange(16, device="cuda") % 10
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({"losses": losses, "peak": torch.cuda.max_memory_reserved()}))
"""


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    return json.loads(start(["-c", BIG], tmp_path_factory.mktemp("needed")).stdout)


@pytest.mark.quick
def test_a_quarter_of_the_memory_is_enough(needed, tmp_path):
    quarter = needed["peak"] // 4
    policy = DIVISION
    run = start(["-c", BIG], tmp_path / "division", policy=policy, memory=quarter)
    trained = json.loads(run.stdout)
    assert trained["peak"] <= quarter
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)


def test_nothing_is_compressed_until_memory_runs_out(needed, tmp_path):
    rescued = DIVISION | {"raw_window": 1000}
    run = start(["-c", BIG], tmp_path / "enough", policy=rescued, memory=needed["peak"] * 2)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues"] == 0
    run = start(["-c", BIG], tmp_path / "short", policy=rescued, memory=needed["peak"] * 10 // 12)
    trained = json.loads(run.stdout)
    assert run.report["rescues"] > 0 and run.report["rescued_bytes"] > 0
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)


KEPT = LOSSLESS | {"rules": [{"match": {"op": "*"}, "keep": True}]}


def test_rescue_moves_what_it_cannot_compress(needed, tmp_path):
    short = needed["peak"] * 10 // 12
    run = start(["-c", BIG], tmp_path / "rescue", policy=KEPT, memory=short, schedule="random:5", poison=True)
    trained = json.loads(run.stdout)
    assert trained["losses"] == needed["losses"] and trained["peak"] <= short
    assert run.report["rescues"] > 0 and run.report["rescued_by_offload_bytes"] > 0
    assert run.report["rescued_bytes"] == 0
    with pytest.raises(AssertionError, match="OutOfMemoryError"):
        start(["-c", BIG], tmp_path / "none", policy=KEPT | {"offload": {"rescue": False}}, memory=short)


IN_A_POOL = """
import gc, threading
import torch
pool, stop, began = torch.cuda.MemPool(), threading.Event(), threading.Event()
torch.cuda.init()

def beside():
    with torch.cuda.use_mem_pool(pool):
        torch.zeros(1000, device="cuda")
        began.set()
        stop.wait()
"""
# The context is another thread's, or that of the training itself, all of whose forward's memory is then the pool's.
BESIDE_A_POOL = IN_A_POOL + "thread = threading.Thread(target=beside, daemon=True)\nthread.start()\nbegan.wait()\n" + BIG
BESIDE_A_POOL += "stop.set()\nthread.join()\n"
WITHIN_A_POOL = IN_A_POOL + BIG.replace("loss = nn.functional.cross_entropy(model(x), y)", """
    with torch.cuda.use_mem_pool(pool):
        loss = nn.functional.cross_entropy(model(x), y)""")


# What another stream has still to copy, PyTorch does not use again before it leaves the pool: a rescue that moves would
# be in vain within it.
@pytest.mark.parametrize(
    "program, policy",
    [(BESIDE_A_POOL, KEPT), (WITHIN_A_POOL, DIVISION | {"raw_window": 1000})],
    ids=["beside", "within"],
)
def test_a_memory_pool_of_the_program_leaves_rescue_on(needed, program, policy, tmp_path):
    roomy = json.loads(start(["-c", program], tmp_path / "plain").stdout)
    short = roomy["peak"] * 10 // 12
    with pytest.raises(AssertionError, match="OutOfMemoryError"):
        start(["-c", program], tmp_path / "short", memory=short)
    run = start(["-c", program], tmp_path / "rescue", policy=policy, memory=short, schedule="random:5", poison=True)
    assert json.loads(run.stdout)["losses"] == pytest.approx(roomy["losses"], abs=0.05 if policy != KEPT else 0)
    assert run.report["rescues"] > 0


OFF = {"version": 1, "policy": "off", "rescue": {"enabled": True}}


def test_off_leaves_the_program_alone_until_memory_runs_out(needed, tmp_path):
    off = OFF | {"stream": "side"}
    run = start(["-c", BIG], tmp_path / "enough", policy=off, memory=needed["peak"] * 2)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues"] == 0
    short = needed["peak"] * 10 // 12
    options = {"memory": short, "schedule": "random:8", "poison": True}
    run = start(["-c", BIG], tmp_path / "short", policy=off, **options)
    trained = json.loads(run.stdout)
    assert trained["peak"] <= short
    assert trained["losses"][0] == needed["losses"][0]
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)
    assert run.report["rescues"] >= run.report["rescues_harder"] > 0 and run.report["rescued_harder_bytes"] > 0
    assert any(row["codec"].startswith("division") for row in run.report["ops"])


def test_a_rescue_that_may_not_approximate_does_not(needed, tmp_path):
    short = needed["peak"] * 10 // 12
    exact = {"rescue": {"enabled": True, "harder": False}}
    run = start(["-c", BIG], tmp_path / "moves", policy=OFF | exact, memory=short, poison=True)
    assert json.loads(run.stdout)["losses"] == needed["losses"]
    assert run.report["rescues_by_offload"] > 0 and run.report["rescues_harder"] == 0
    for name, policy in {
        "no more to do": OFF | exact | {"offload": {"rescue": False}},
        "none": DIVISION | {"raw_window": 1000, "rescue": {"enabled": False}},
    }.items():
        with pytest.raises(AssertionError, match="OutOfMemoryError"):
            start(["-c", BIG], tmp_path / name, policy=policy, memory=short)


def test_a_rescue_encodes_anew_what_has_many_bits(needed, tmp_path):
    policy = {"version": 1, "policy": "blpa", "blpa": {"bits": 8}, "raw_window": 0, "guard": {"every_steps": 0}}
    policy |= {"offload": {"rescue": False}}
    options = {"schedule": "random:9", "poison": True}
    roomy = start(["-c", BIG], tmp_path / "roomy", policy=policy, **options)
    held = json.loads(roomy.stdout)["peak"]
    assert roomy.report["rescues"] == 0
    run = start(["-c", BIG], tmp_path / "short", policy=policy, memory=held * 11 // 12, **options)
    trained = json.loads(run.stdout)
    assert trained["losses"][-1] == pytest.approx(needed["losses"][-1], abs=0.05)
    assert run.report["rescues_harder"] > 0 and run.report["rescued_bytes"] == 0
    held_by = {row["codec"]: row["count"] for row in run.report["ops"]}
    assert held_by["division 2-bit"] > 0
    assert any(codec.startswith("blpa 8-bit") for codec in held_by), "whose signs are read is left alone"


def test_offload_trains_in_a_third_of_the_memory(needed, tmp_path):
    third = needed["peak"] // 3
    run = start(["-c", BIG], tmp_path / "offload", policy=KEPT | OFFLOAD, memory=third, schedule="lazy", poison=True)
    trained = json.loads(run.stdout)
    assert trained["losses"] == needed["losses"] and trained["peak"] <= third
    (device,) = run.report["devices"]
    assert device["index"] == 0 and device["allocator"] == "Cinch"
    assert device["stash_bytes_at_most"] <= device["peak_allocated_bytes"] <= device["peak_reserved_bytes"]
    assert device["peak_reserved_bytes"] == trained["peak"]


PIPELINE = """
import os
import torch
from torch import nn
import fakecuda
torch.set_num_threads(1)

def layers():
    return [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]

def fork_and_drop(held):
    # As a worker of a DataLoader does that lives through a step: what is held goes in the child, too.
    pid = os.fork()
    if pid == 0:
        held.clear()
        os._exit(0 if torch.ones(1000).sum() == 1000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

def gradients(devices):
    torch.manual_seed(0)
    stages = [nn.Sequential(*layers()).to(device) for device in devices]
    for _ in range(3):
        value = torch.randn(128, 64)
        for stage, device in zip(stages, devices):
            value = stage(value.to(device))
        held = [value.square().mean()]
        del value
        if devices[0] != "cpu":
            fork_and_drop(held)
        held[0].backward()
    return [p.grad.cpu() for stage in stages for p in stage.parameters()]

expected = gradients(["cpu"] * 3)
found = gradients(["cuda:0", "cuda:1", "cuda:0"])
print(all(map(torch.equal, found, expected)), fakecuda.control().faults())
"""


@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
def test_offload_from_several_devices_and_across_forks(allocator, tmp_path):
    policy = LOSSLESS | OFFLOAD | allocator | {"stream": "side"}
    run = start(["-c", PIPELINE], tmp_path, policy=policy, devices=2, schedule="random:10", **LATE)
    assert run.stdout.strip() == "True 0"
    assert run.report["offloads"] > 50
    assert [device["index"] for device in run.report["devices"]] == [0, 1]
    assert all(device["stash_bytes_at_most"] > 0 for device in run.report["devices"])


WATCHED = """
import os, subprocess, sys
plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
subprocess.run([sys.argv[1], "watch", "--json"], env=plain, check=True)
"""


def test_watch_shows_what_is_on_the_host(tmp_path):
    segments = tmp_path / "segments"
    segments.mkdir()
    program = f"import os\nos.environ['CINCH_TELEMETRY_DIR'] = {str(segments)!r}\n" + BIG + WATCHED
    run = start(["-c", program, harness.CINCH], tmp_path / "run", policy=KEPT | OFFLOAD)
    (shown,) = json.loads(run.stdout.split("\n", 1)[1])["runs"]
    live = shown["live"]
    assert live["offloaded_bytes"] == run.report["offloaded_bytes_at_peak"] > live["stored_bytes"]
    assert live["offloaded_bytes"] <= live["pinned_bytes"] <= live["reserved_pinned_bytes"]
    assert live["reserved_pinned_bytes"] == run.report["reserved_pinned_bytes"]


def test_rules_choose_what_leaves(tmp_path):
    rules = [
        {"match": {"op": "aten::native_batch_norm"}, "keep": True, "offload": True},
        {"match": {"op": "*"}, "keep": True, "offload": False},
    ]
    run = start(["-c", BIG], tmp_path / "rules", policy=LOSSLESS | {"rules": rules})
    layers, steps, bytes_each = 30, 3, 16 * 8 * 64 * 64 * 4
    assert run.report["offloads"] <= layers * steps
    assert run.report["offloaded_bytes"] == run.report["offloads"] * bytes_each > 0


SCHEDULES = """
import sys, time
import torch, fakecuda
control = fakecuda.control()
torch.manual_seed(0)
streams = [torch.cuda.Stream() for _ in range(3)]
weights = [torch.randn(32, 32, device="cuda", requires_grad=True) for _ in range(3)]
x = torch.randn(64, 32, device="cuda")

def gradients():
    # Each stage on a stream of its own, as pipelines do; what is handed on is recorded there.
    value = x
    for stream, weight in zip(streams, weights):
        stream.wait_stream(torch.cuda.current_stream())
        value.record_stream(stream)
        with torch.cuda.stream(stream):
            value = torch.nn.functional.gelu(torch.relu(value @ weight) @ weight)
        torch.cuda.current_stream().wait_stream(stream)
    value.record_stream(torch.cuda.current_stream())
    return torch.autograd.grad(value.square().sum(), weights)

expected = [g.cpu() for g in gradients()]
different = []
for seed in range(int(sys.argv[1])):
    control.schedule(f"random:{seed}")
    if any(not torch.equal(a.cpu(), b) for a, b in zip(gradients(), expected)):
        different.append(seed)
print(different, control.faults())
time.sleep(0.2)  # the engine's thread may still be dropping the last graph, for which it wants the interpreter
"""


def orders_of_events(folder, orders, policy) -> harness.Run:
    run = start(["-c", SCHEDULES, orders], folder, policy=policy, poison=True, schedule="lazy")
    assert run.stdout.strip() == "[] 0"
    assert any(row["codec"] == "raw" for row in run.report["ops"])
    return run


RAW = {"match": {"op": "*"}, "codec": {"name": "raw"}}


def some_orders(quick_stream):
    """Orders and streams; a few orders on one stream are quick."""
    quick = pytest.param(60, quick_stream, marks=pytest.mark.quick)
    return pytest.mark.parametrize("orders, stream", [quick, (1000, "current"), (1000, "side")])


@some_orders("current")
def test_orders_of_events(stream, orders, tmp_path):
    orders_of_events(tmp_path, orders, LOSSLESS | {"stream": stream, "rules": [RAW]})


@some_orders("side")
def test_orders_of_events_with_offload(stream, orders, tmp_path):
    kept = {"match": {"op": "aten::gelu"}, "keep": True}
    run = orders_of_events(tmp_path, orders, LOSSLESS | OFFLOAD | {"stream": stream, "rules": [kept, RAW]})
    assert run.report["offloads"] > orders


CAPTURE = """
import torch
torch.backends.cudnn.enabled = False
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64)).cuda()
x = torch.randn(32, 64, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).sum().backward()
graph.replay()
print("captured")
"""


@pytest.mark.quick
def test_graph_capture_is_left_alone(tmp_path):
    run = start(["-c", CAPTURE], tmp_path, policy=LOSSLESS)
    assert run.stdout.strip() == "captured"
    declined = {row["reason"]: row["count"] for row in run.report["passed_through"]}
    assert declined["while a CUDA graph is captured"] > 0


CAPTURED_BACKWARD = """
import time
import torch
torch.backends.cudnn.enabled = False
weights = [torch.randn(64, 64, device="cuda", requires_grad=True) for _ in range(2)]
x = torch.randn(32, 64, device="cuda")
stream = torch.cuda.Stream()

def forward():
    value = x
    for weight in weights * 3:
        value = torch.nn.functional.gelu(torch.relu(value @ weight))
    return value.square().sum()

# What other forwards leave, so that what comes next is known.
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(2):
        torch.autograd.grad(forward(), weights)
    loss = forward()
    expected = [g.clone() for g in torch.autograd.grad(loss, weights, retain_graph=True)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = torch.autograd.grad(loss, weights, retain_graph=True)
    for _ in range(3):
        for gradient in found:
            gradient.zero_()
        torch.autograd.grad(forward(), weights)  # of other entries, between replays
        graph.replay()
        torch.cuda.synchronize()
        print(all(torch.equal(a, b) for a, b in zip(found, expected)))
del loss
time.sleep(0.2)  # the engine's thread may still be dropping the graph, for which it wants the interpreter
"""


@pytest.mark.parametrize("stream", ["current", "side"])
@pytest.mark.parametrize("offload", [{}, OFFLOAD], ids=["on device", "offload"])
def test_a_backward_is_captured_whose_forward_was_not(stream, offload, tmp_path):
    policy = LOSSLESS | {"rules": [RAW], "stream": stream, "raw_window": 0} | offload
    run = start(["-c", CAPTURED_BACKWARD], tmp_path, policy=policy, schedule="lazy", event_delay=2, poison=True)
    assert run.stdout.split() == ["True"] * 3
    assert any(row["codec"] == "raw" for row in run.report["ops"])
    assert not offload or run.report["offloads"] > 0


BESIDE_A_CAPTURE = """
import threading
import torch
torch.backends.cudnn.enabled = False
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
x = torch.randn(256, 256, device="cuda")
graph, captures, trained = torch.cuda.CUDAGraph(), threading.Event(), threading.Event()

def capture():
    with torch.cuda.graph(graph, capture_error_mode="global"):
        torch.sin(x, out=captured)
        captures.set()
        trained.wait()

captured = torch.zeros_like(x)
torch.sin(x)
thread = threading.Thread(target=capture)
thread.start()
captures.wait()
value = x
for _ in range(8):
    value = torch.relu(value @ weight)
value.sum().backward()
trained.set()
thread.join()
graph.replay()
print(torch.equal(captured, torch.sin(x)))
"""


def test_page_locked_memory_is_taken_beside_another_threads_capture(tmp_path):
    run = start(["-c", BESIDE_A_CAPTURE], tmp_path, policy=KEPT | OFFLOAD)
    assert run.stdout.strip() == "True"
    assert run.report["offloads"] > 0 and run.report["reserved_pinned_bytes"] > 0


# Of two devices the program uses the second only, by name or as the current one.
SECOND_DEVICE = """
import sys
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
if sys.argv[1] == "current":
    torch.cuda.set_device(1)
layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.GELU(), nn.Flatten()]
model = nn.Sequential(*layers, nn.Linear(392, 10)).to("cuda:1")
for step in range(4):
    x, y = torch.randn(16, 3, 16, 16, device="cuda:1"), torch.arange(16, device="cuda:1") % 10
    nn.functional.cross_entropy(model(x), y).backward()
    torch.cuda.set_per_process_memory_fraction(0.9, 0)
    for device in range(2):
        torch.cuda.reset_peak_memory_stats(device)
        torch.cuda.reset_accumulated_memory_stats(device)
    torch.cuda.empty_cache()
del x, y
print(control.has_context(0), control.has_context(1))
"""


@pytest.mark.parametrize("use", ["current", "by name"])
@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
@pytest.mark.parametrize(
    "policy",
    [
        None,
        pytest.param(DIVISION, marks=pytest.mark.quick),
        LOSSLESS | {"stream": "side", "in_flight_bytes": "30000B"},
        LOSSLESS | OFFLOAD | {"stream": "side"},
        {"version": 1, "policy": "lossless", "min_bytes": 0},
    ],
    ids=["plain", "division", "side", "offload", "window"],
)
def test_other_devices_get_no_context(use, allocator, policy, tmp_path):
    """A context takes hundreds of megabytes of a GPU that the program leaves to others."""
    options = {"devices": 2, "schedule": "lazy", **LATE}
    run = start(["-c", SECOND_DEVICE, use], tmp_path, policy=policy and policy | allocator, **options)
    assert run.stdout.split() == ["0", "1"]


EVENTS = """
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())]).cuda()
x = torch.randn(128, 64, device="cuda")
counts = []
for step in range(36):
    calls = ("cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventRecord")
    before = [control.calls(call) for call in calls]
    model(x).square().mean().backward()
    counts.append([control.calls(call) - count for call, count in zip(calls, before)])
print(*[sum(each) for each in zip(*counts[-6:])])
"""


# Eagerly: where events lag, more are in use at once, and the pool fills for longer.
@pytest.mark.parametrize("policy", [{}, OFFLOAD], ids=["on device", "offload"])
def test_events_are_used_again(policy, tmp_path):
    on_side = LOSSLESS | {"stream": "side"}
    run = start(["-c", EVENTS], tmp_path, policy=on_side | policy, schedule="eager", event_delay=0, poison=True)
    made, destroyed, recorded = map(int, run.stdout.split())
    assert destroyed == 0 and made < recorded / 50 > 4


# The program makes streams itself, as other libraries do, and destroys them: after it has computed gradients on one,
# after a forward whose graph stays and comes to nothing, and when all that is left is a tensor. Of a tensor whose use
# on a stream is recorded, PyTorch itself uses the stream when it is freed; there is none here.
DESTROYED_STREAMS = """
import ctypes, json
import torch, fakecuda
from torch import nn
torch.backends.cudnn.enabled = False
control = fakecuda.control()
cuda = ctypes.CDLL("libcuda.so.1")
torch.manual_seed(0)
layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))]
model = nn.Sequential(*layers).cuda()
x = torch.randn(512, 64, device="cuda")
losses, kept = [], []
# Else autograd would make these nodes on the first stream that it comes by, and go on to use that stream.
nodes = [p.view_as(p).grad_fn.next_functions[0][0] for p in model.parameters()]

def forward():
    return model(x).square().mean()

def on_a_stream_of_its_own(work):
    handle = ctypes.c_void_p()
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(handle), 1) == 0
    stream = torch.cuda.ExternalStream(handle.value)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = work()
    torch.cuda.current_stream().wait_stream(stream)
    assert cuda.cudaStreamDestroy(handle) == 0
    return result

def step():
    loss = forward()
    loss.backward()
    return loss.detach()

def gradients():
    return sum(g.double().sum() for g in torch.autograd.grad(forward(), list(model.parameters())))

for _ in range(4):
    losses.append(on_a_stream_of_its_own(gradients))
    unread = on_a_stream_of_its_own(forward)
    kept.append(on_a_stream_of_its_own(lambda: forward().detach() * 2))
    losses.append(step())
    del unread
    large = [torch.full((1 << 20,), 1.0, device="cuda") for _ in range(6)]
    large.append(torch.zeros(7 << 20, device="cuda"))
    losses.append(step())
    del large
    torch.cuda.empty_cache()
    kept.append(on_a_stream_of_its_own(lambda: losses[-1] * 3))
torch.cuda.synchronize()
torch.cuda.empty_cache()
found = [value.item() for value in losses + kept] + [p.grad.double().sum().item() for p in model.parameters()]
print(json.dumps(found))
print(control.faults())
"""


@pytest.mark.parametrize("allocator", [CINCHS, PYTORCHS], ids=["Cinch's", "PyTorch's"])
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"raw_window": 0}, marks=pytest.mark.quick),
        {"stream": "side"},
        OFFLOAD | {"stream": "side"},
        OFFLOAD | {"rules": [{"match": {"op": "*"}, "keep": True}]},
    ],
    ids=["current", "side", "offload", "kept"],
)
def test_streams_that_the_program_destroys_are_not_used_again(policy, allocator, tmp_path):
    options = {"memory": 160 << 20, "poison": True}
    plain = start(["-c", DESTROYED_STREAMS], tmp_path / "plain", **options).stdout.split("\n")
    assert plain[1] == "0"
    for schedule in "lazy", "random:3":
        run = start(["-c", DESTROYED_STREAMS], tmp_path / schedule[:4], policy=LOSSLESS | policy | allocator,
                    schedule=schedule, **options)  # fmt: skip
        assert run.stdout.split("\n")[:2] == [plain[0], "0"], schedule


OF_POOLS = """
import sys
import torch, fakecuda
control = fakecuda.control()
pool = [torch.cuda.Stream() for _ in range(32)]
created = control.calls("cudaStreamCreateWithPriority")
control.trace(sys.argv[1])
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
value = torch.randn(256, 256, device="cuda")
for _ in range(6):
    value = torch.relu(value @ weight)
value.sum().backward()
torch.cuda.synchronize()
control.trace(None)
print(control.calls("cudaStreamCreateWithPriority") - created, *[hex(stream.cuda_stream) for stream in pool])
"""


def test_streams_of_pytorchs_pool_are_left_to_the_program(tmp_path):
    trace = tmp_path / "trace"
    run = start(["-c", OF_POOLS, trace], tmp_path / "run", policy=KEPT | OFFLOAD | {"stream": "side"})
    created, *pool = run.stdout.split()
    assert run.report["offloads"] > 0 and created == "2", "one each way"
    text = trace.read_text()
    assert "cudaStreamCreateWithPriority 1 0\n" in text, "without a wait for the default stream, and of low priority"
    assert not [stream for stream in pool if stream in text]
