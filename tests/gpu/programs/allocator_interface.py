# SPDX-License-Identifier: Apache-2.0
"""What programs ask of PyTorch's CUDA allocator, whichever is in place: functions check_* assert.

Prints {"checks": {name: null or what was wrong}}.
"""

import gc
import json
import pathlib
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402

import cinch_here  # noqa: E402

MB = 1 << 20
FAKE = "--fake" in sys.argv
UNIT = 2 * MB if FAKE else 8 * MB


def block(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def check_counts():
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = block(5 * MB)
    small = [block(3000) for _ in range(10)]
    assert torch.cuda.memory_allocated() - before >= 5 * MB + 30000
    assert torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    stats = torch.cuda.memory_stats()
    for name in ("allocated_bytes", "active_bytes", "reserved_bytes", "allocation", "segment"):
        for what in ("current", "allocated", "freed"):
            whole, *parts = (stats[f"{name}.{pool}.{what}"] for pool in ("all", "small_pool", "large_pool"))
            assert whole == sum(parts), (name, what, whole, parts)
    del x, small
    assert torch.cuda.memory_allocated() == before
    assert "Active memory" in torch.cuda.memory_summary()


def check_empty_cache_gives_back():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    blocks = [block(32 * MB) for _ in range(4)]
    del blocks
    torch.cuda.synchronize()
    assert torch.cuda.memory_reserved() >= 128 * MB
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert after >= free - 32 * MB, (free, after)


def check_a_large_block_after_small_ones():
    """64 blocks, every other one freed, then three quarters of what these left in one piece. PyTorch's
    own allocator has to reserve all of it anew; Cinch's has not."""
    torch.cuda.empty_cache()
    blocks = [block(UNIT) for _ in range(64)]
    for kept in blocks:
        kept.fill_(7)
    reserved = torch.cuda.memory_reserved()
    del blocks[::2]
    del kept
    torch.cuda.synchronize()
    large = block(24 * UNIT).fill_(1)
    figures["reserved_more_share"] = (torch.cuda.memory_reserved() - reserved) / (24 * UNIT)
    assert all(bool((each == 7).all()) for each in blocks)
    assert bool((large == 1).all())
    del blocks, large
    torch.cuda.empty_cache()
    if cinch_here.allocator() is not None:
        assert figures["reserved_more_share"] <= 0.25, figures


def check_snapshot_and_history():
    torch.cuda.memory._record_memory_history(context="all", stacks="python")
    kept = block(9 * MB)
    gone = block(4 * MB)
    del gone
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    sizes = [b["requested_size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
    assert kept.numel() in sizes
    actions = {t["action"] for t in snapshot["device_traces"][0]}
    assert {"alloc", "free_completed"} <= actions, actions
    for segment in snapshot["segments"]:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]


def check_memory_pools():
    before = torch.cuda.memory_allocated()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = block(6 * MB)
    outside = block(2 * MB)
    assert sum(s["total_size"] for s in pool.snapshot()) >= 6 * MB
    del inside, outside
    assert torch.cuda.memory_allocated() == before
    del pool


def check_another_streams_block_is_not_reused_early():
    side = torch.cuda.Stream()
    for _ in range(2 if FAKE else 20):
        x = torch.full((4 * MB,), 5.0, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            if not FAKE:
                torch.cuda._sleep(5_000_000)
            y = x * 2
        x.record_stream(side)
        del x
        poison = [torch.full((4 * MB,), 7.0, device="cuda") for _ in range(3)]
        torch.cuda.synchronize()
        assert bool((y == 10).all())
        del poison, y


def check_out_of_memory_is_raised_and_survived():
    free, total = torch.cuda.mem_get_info()
    limit = min(total, 2048 * MB) // 2
    torch.cuda.set_per_process_memory_fraction(limit / total)
    held = block(limit * 5 // 8)
    try:
        block(limit // 2)
        raise AssertionError("more than the limit was given")
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate" in str(error)
    del held
    gc.collect()
    again = block(limit * 5 // 8)
    assert again.numel() == limit * 5 // 8
    del again
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def check_graphs():
    x = torch.ones(100000, device="cuda")
    x + 1
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 3
        z = y + 1
    poison = [torch.full((100000,), -1.0, device="cuda") for _ in range(4)]
    x.fill_(2.0)
    graph.replay()
    torch.cuda.synchronize()
    assert bool((z == 7).all()), z[:4]
    del poison
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=graph.pool()):
        w = z * 2
    second.replay()
    torch.cuda.synchronize()
    assert bool((w == 14).all())


def _read(queue, answers):
    shared = queue.get()
    answers.put(float(shared.sum()))
    del shared
    queue.get()


def check_ipc():
    if FAKE:
        return "not here: on the fake tests/e2e/fake_cuda/test_cuda_allocator.py shares memory"
    context = torch.multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    child = context.Process(target=_read, args=(queue, answers))
    child.start()
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float64)
    queue.put(x)
    try:
        assert answers.get(timeout=40) == float(x.sum())
    finally:
        queue.put(None)
        child.join(20)
        child.kill()


figures: dict[str, float] = {}


def main():
    torch.cuda.init()
    results = {}
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            try:
                results[name.removeprefix("check_")] = function()
            except Exception as error:
                traceback.print_exc()
                results[name.removeprefix("check_")] = f"{type(error).__name__}: {error}"[:300]
            gc.collect()
    print(json.dumps({"checks": results, "figures": figures, "cuda_allocator": cinch_here.allocator() is not None}))


if __name__ == "__main__":
    main()
