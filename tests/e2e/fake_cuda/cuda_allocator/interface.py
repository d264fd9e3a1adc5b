# SPDX-License-Identifier: Apache-2.0
"""Everything that a program may ask of PyTorch's CUDA allocator. Prints what came of it as JSON: the
same with any allocator, but for what begins with "own." """

import ctypes
import gc
import json
import os
import threading

import fakecuda
import torch
from torch.cuda import _memory_viz

from figures import figures

MB = 2**20
fake = fakecuda.control()
result = {}


def block(bytes, device="cuda"):
    return torch.empty(bytes, dtype=torch.uint8, device=device)


def counts():
    x = block(5 * MB)
    result["allocated"] = torch.cuda.memory_allocated()
    y = [block(3000) for _ in range(10)]
    result["allocated.small"] = torch.cuda.memory_allocated()
    result["peak"] = torch.cuda.max_memory_allocated()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    assert torch.cuda.max_memory_reserved() >= torch.cuda.memory_reserved()
    stats = torch.cuda.memory_stats()
    result["stats.keys"] = sorted(stats)
    result["stats.requested"] = stats["requested_bytes.all.current"]
    result["stats.blocks"] = [stats[f"allocation.{pool}.current"] for pool in ("all", "small_pool", "large_pool")]
    for name in ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes", "allocation", "segment"):
        each = {what: [stats[f"{name}.{pool}.{what}"] for pool in ("all", "small_pool", "large_pool")]
                for what in ("current", "peak", "allocated", "freed")}
        for what in ("current", "allocated", "freed"):
            assert each[what][0] == each[what][1] + each[what][2], (name, what, each)
        assert [a - f for a, f in zip(each["allocated"], each["freed"])] == each["current"], (name, each)
        assert all(p >= c for p, c in zip(each["peak"], each["current"])), (name, each)
    del y
    assert torch.cuda.memory_allocated() == result["allocated"]
    torch.cuda.reset_peak_memory_stats()
    result["peak.reset"] = torch.cuda.max_memory_allocated()
    torch.cuda.reset_accumulated_memory_stats()
    stats = torch.cuda.memory_stats()
    result["accumulated.reset"] = [stats["allocation.all.allocated"], stats["allocated_bytes.all.freed"]]
    del x
    result["accumulated.freed"] = torch.cuda.memory_stats()["allocated_bytes.all.freed"]
    result["summary"] = "Active memory" in torch.cuda.memory_summary()
    result["accelerator"] = torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()


def emptying():
    blocks = [block(7 * MB) for _ in range(4)]
    del blocks
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() >= 28 * MB
    torch.cuda.empty_cache()
    result["emptied"] = [torch.cuda.memory_reserved(), fake.used(0)]


def snapshots():
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    kept = block(9 * MB)
    gone = block(4 * MB)
    del gone
    torch.cuda.memory._set_memory_metadata("labelled") if hasattr(torch.cuda.memory, "_set_memory_metadata") else None
    snapshot = torch.cuda.memory._snapshot()
    blocks = [b for s in snapshot["segments"] for b in s["blocks"]]
    kept_blocks = [b for b in blocks if b["state"] == "active_allocated" and b["requested_size"] == 9 * MB]
    result["snapshot.kept"] = [b["requested_size"] for b in kept_blocks]
    result["snapshot.address"] = kept_blocks[0]["address"] == kept.data_ptr()
    result["snapshot.frames"] = any("snapshots" in f["name"] for f in kept_blocks[0]["frames"])
    for segment in snapshot["segments"]:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
    actions = [t["action"] for t in snapshot["device_traces"][0] if t["action"] in
               ("alloc", "free_requested", "free_completed")]
    result["snapshot.actions"] = actions
    times = [t["time_us"] for t in snapshot["device_traces"][0]]
    assert times == sorted(times)
    assert "total_allocated" in _memory_viz.segsum(snapshot)
    assert len(_memory_viz.trace_plot(snapshot)) > 1000 and len(_memory_viz.segment_plot(snapshot)) > 1000
    assert len(_memory_viz.trace(snapshot)) > 100
    torch.cuda.memory._record_memory_history(enabled=None)
    del kept


def memory_pools():
    before = torch.cuda.memory_allocated()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = block(6 * MB)
    outside = block(2 * MB)
    owners = {tuple(s["segment_pool_id"]) for s in pool.snapshot()}
    result["pool.owners"] = len(owners)
    result["pool.segments"] = sum(s["total_size"] for s in pool.snapshot()) >= 6 * MB
    result["pool.allocated"] = torch.cuda.memory_allocated() - before
    del inside, outside
    result["pool.freed"] = torch.cuda.memory_allocated() - before
    del pool


def other_streams():
    """A block that another stream still reads is not written to, however soon it is freed."""
    side = torch.cuda.Stream()
    answers = []
    for recorded in (True, False):
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        x = torch.full((MB,), 5.0, device="cuda")
        torch.cuda.synchronize()
        fake.hold(side.cuda_stream)
        with torch.cuda.stream(side):
            y = x * 2
        if recorded:
            x.record_stream(side)
        del x
        writers = [torch.full((MB,), 7.0, device="cuda") for _ in range(4)]
        torch.cuda.current_stream().synchronize()
        fake.release(side.cuda_stream)
        torch.cuda.synchronize()
        answers.append(bool((y.cpu() == 10.0).all()))
        del writers, y
    result["record_stream"] = answers


def fractions():
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.25)
    result["fraction"] = torch.cuda.get_per_process_memory_fraction()
    try:
        block(total // 2)
        result["fraction.kept"] = False
    except torch.OutOfMemoryError as error:
        result["fraction.kept"] = "allowed" in str(error)
    torch.cuda.set_per_process_memory_fraction(1.0)
    result["fraction.lifted"] = block(total // 2).numel() == total // 2
    torch.cuda.empty_cache()


def out_of_memory():
    seen = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *arguments: seen.append(arguments))
    before = torch.cuda.memory_allocated()
    ooms = torch.cuda.memory_stats()["num_ooms"]
    total = torch.cuda.get_device_properties(0).total_memory
    held = block(total * 5 // 8)
    for size in (total // 2, 2**50):
        try:
            block(size)
        except torch.OutOfMemoryError as error:
            text = str(error)
            assert "CUDA out of memory. Tried to allocate" in text and "total capacity" in text, text
    result["oom.count"] = torch.cuda.memory_stats()["num_ooms"] - ooms
    result["oom.observed"] = len(seen)
    del held
    gc.collect()
    again = block(total * 5 // 8)
    result["oom.recovered"] = again.numel() == total * 5 // 8
    del again
    torch.cuda.empty_cache()
    result["oom.returned"] = torch.cuda.memory_allocated() - before


def graphs():
    before = torch.cuda.memory_allocated()
    x = torch.ones(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 3
        z = y + 1
    ordinary = block(3 * MB)
    x.fill_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    result["graph"] = z[:3].tolist()
    pools = {tuple(s["segment_pool_id"]) for s in torch.cuda.memory_snapshot()}
    result["graph.pools"] = [pool != (0, 0) for pool in sorted(pools)]
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        w = z * 2
    second.replay()
    torch.cuda.synchronize()
    result["graph.shared_pool"] = w[:2].tolist()
    state = torch._C._cuda_getCheckpointState(0, graph.pool())
    result["graph.checkpoint"] = type(state).__name__
    result["graph.live"] = torch._C._cuda_checkPoolLiveAllocations(0, graph.pool(), {z.data_ptr(), y.data_ptr(), w.data_ptr()})
    del x, y, z, w, graph, second, ordinary, state
    gc.collect()
    torch.cuda.empty_cache()
    result["graph.freed"] = torch.cuda.memory_allocated() - before


def raw_memory():
    before = torch.cuda.memory_allocated()
    pointer = torch.cuda.caching_allocator_alloc(5000)
    result["raw"] = torch.cuda.memory_allocated() - before
    torch.cuda.caching_allocator_delete(pointer)
    result["raw.freed"] = torch.cuda.memory_allocated() - before
    empty = torch.empty(0, device="cuda")
    result["nothing"] = [empty.data_ptr(), torch.cuda.memory_allocated() - before]
    shrunk = block(4 * MB)
    shrunk.untyped_storage().resize_(0)
    result["resized"] = torch.cuda.memory_allocated() - before
    result["backend"] = torch.cuda.get_allocator_backend()
    torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")


def switched_off():
    """Each block is then the driver's own, whoever gave those that there are already."""
    before = torch.cuda.memory_allocated()
    cached = block(5 * MB)
    torch.cuda.memory.caching_allocator_enable(False)
    calls = ("cudaMalloc", "cudaFree")
    counts = [fake.calls(call) for call in calls]
    plain = block(3 * MB)
    plain.record_stream(torch.cuda.Stream())
    allocated = torch.cuda.memory_allocated() - before
    del plain
    result["off.calls"] = [fake.calls(call) - count for call, count in zip(calls, counts)]
    result["off.allocated"] = allocated
    cached.record_stream(torch.cuda.Stream())
    del cached
    torch.cuda.memory.caching_allocator_enable(True)
    total = torch.cuda.get_device_properties(0).total_memory
    cached = block(total * 5 // 8)
    del cached
    torch.cuda.synchronize()
    torch.cuda.memory.caching_allocator_enable(False)
    try:
        result["own.off.served"] = block(total // 2).numel() == total // 2
    except RuntimeError:
        result["own.off.served"] = False  # PyTorch's cache is in the way of what is the driver's
    torch.cuda.memory.caching_allocator_enable(True)
    torch.cuda.empty_cache()
    again = block(3 * MB)
    result["on.allocated"] = torch.cuda.memory_allocated() - before
    del again


def two_devices():
    x = torch.arange(1000.0, device="cuda:1")
    big = block(5 * MB, "cuda:1")
    result["devices.allocated"] = [torch.cuda.memory_allocated(1), torch.cuda.memory_allocated(0)]
    y = x.to("cuda:0")
    result["devices.copied"] = float(y.sum())
    del x, big
    gc.collect()
    result["devices.freed"] = torch.cuda.memory_allocated(1)
    with torch.cuda.device(1):
        z = block(100)
        result["devices.current"] = z.device.index


def peers():
    """A device reaches another's memory: what is mapped already, and what will be."""
    assert not torch.cuda.can_device_access_peer(0, 1)
    fake.set_peers(1)
    there = [torch.zeros(MB, device="cuda:1") for _ in range(2)]
    here = torch.arange(float(MB), device="cuda:0")
    before = fake.calls("cudaMemcpyPeerAsync")
    there[0].copy_(here)
    new = torch.zeros(9 * MB, device="cuda:1")
    new[-MB:].copy_(here)
    result["peers"] = [torch.cuda.can_device_access_peer(0, 1), torch.equal(there[0].cpu(), here.cpu()),
                       torch.equal(new[-MB:].cpu(), here.cpu()), fake.calls("cudaMemcpyPeerAsync") - before]
    fake.set_peers(0)


def pools_for_the_worst_case():
    """A pool with use_on_oom serves what nobody else can; one without does not."""
    answers = []
    for use_on_oom in (False, True):
        torch.cuda.empty_cache()
        pool = torch.cuda.MemPool(use_on_oom=use_on_oom)
        with torch.cuda.use_mem_pool(pool):
            inside = block(24 * MB)
        del inside
        total = torch.cuda.get_device_properties(0).total_memory
        held = block(total - fake.used(0) - 10 * MB)
        try:
            served = block(22 * MB)
            answers.append([s["address"] for s in pool.snapshot()] == [served.data_ptr()])
            del served
        except torch.OutOfMemoryError:
            answers.append("out of memory")
        del held, pool
        gc.collect()
    torch.cuda.empty_cache()
    result["pool.use_on_oom"] = answers


def annotations():
    """Who attaches as NCCL does hears of all that is mapped, and only of that."""
    hooks = ctypes.CDLL(os.environ["E2E_HOOKS"])
    hooks.e2e_mapped.restype = hooks.e2e_wrong.restype = ctypes.c_longlong
    hooks.e2e_blocks.restype = ctypes.c_longlong
    torch.cuda.empty_cache()
    hooks.e2e_attach()
    x, y = block(30 * MB), block(1000)
    mapped = hooks.e2e_mapped()
    assert mapped >= 31 * MB, mapped
    result["tracker.blocks"] = [hooks.e2e_blocks()]
    del x, y
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    result["tracker.blocks"].append(hooks.e2e_blocks())
    result["tracker.left"] = hooks.e2e_mapped()
    result["tracker.wrong"] = hooks.e2e_wrong()
    torch.cuda.memory._record_memory_history(global_record_annotations=True)
    with torch.profiler.record_function("an annotation"):
        block(3 * MB)
    found = torch.cuda.memory._snapshot()["external_annotations"]
    result["annotations"] = [[a["stage"], a["name"]] for a in found]
    torch.cuda.memory._record_memory_history(enabled=None)


def threads():
    def work(out):
        for i in range(40):
            a = torch.full((1000 * (i % 7 + 1),), float(i), device="cuda")
            with torch.cuda.stream(torch.cuda.Stream()):
                b = torch.full((30000,), float(i), device="cuda")
            out.append([float(a.mean()), float(b.mean())])

    outs = [[] for _ in range(3)]
    workers = [threading.Thread(target=work, args=(out,)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    result["threads"] = outs


def profiles():
    with torch.profiler.profile(profile_memory=True) as profile:
        block(3 * MB)
    result["profiled"] = any(e.name == "[memory]" for e in profile.events())


torch.cuda.init()
for part in (counts, emptying, snapshots, memory_pools, other_streams, fractions, out_of_memory, graphs, raw_memory,
             switched_off, two_devices, peers, pools_for_the_worst_case, annotations, threads, profiles):
    part()
    gc.collect()
    figures()
result["left"] = [torch.cuda.memory_allocated(0), torch.cuda.memory_allocated(1)]
result["own.figures"] = figures()
result["own.faults"] = fake.faults()
print(json.dumps(result))
