# SPDX-License-Identifier: Apache-2.0
"""What programs use of CUDA besides operators, each on the fake: asserts in functions check_*.

Prints one JSON object: for each check, null or the traceback. Every check holds under every schedule,
with delayed events, with poison, and with either of PyTorch's allocators.
"""

import json
import sys
import traceback

import fakecuda
import torch

MIB = 1 << 20
fake = fakecuda.control()


def sleeping(stream: torch.cuda.Stream):
    """Keeps what `stream` is given from being done, until `fake.release`."""
    fake.hold(stream.cuda_stream)


def check_availability():
    assert torch.cuda.is_available() and torch.cuda.device_count() == 2
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.mem_get_info()[1] == torch.cuda.get_device_properties(0).total_memory


def check_copies_keep_every_byte():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64):
        x = torch.randn(3, 257).to(dtype)
        assert torch.equal(x.cuda().cpu(), x)
        assert torch.equal(x.t().cuda().cpu(), x.t())
        assert torch.equal(x.cuda().t().cpu(), x.t())
        assert torch.equal(x.cuda()[1:, ::3].cpu(), x[1:, ::3])
    y = torch.empty(3, 257, dtype=torch.float64, device="cuda").copy_(x.real)
    assert torch.equal(y.cpu(), x.real.double())


def check_pageable_memory_may_change_after_a_copy():
    x = torch.ones(1000)
    y = x.to("cuda", non_blocking=True)
    x.zero_()
    assert y.sum().item() == 1000


def check_pinned_memory():
    x = torch.randn(1000).pin_memory()
    assert x.is_pinned() and not torch.randn(10).is_pinned()
    y = x.to("cuda", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    before = fake.host_syncs()
    back.copy_(y, non_blocking=True)
    assert fake.host_syncs() == before
    torch.cuda.synchronize()
    assert torch.equal(back, x)


def check_host_synchronizations_are_counted():
    x = torch.randn(100, device="cuda")
    before = fake.host_syncs()
    y = (x @ torch.outer(x, x)).relu().sum()
    assert fake.host_syncs() == before
    counted = fake.host_syncs_of("cudaStreamSynchronize")
    y.item()
    assert fake.host_syncs_of("cudaStreamSynchronize") == counted + 1
    (x > 0).nonzero()
    x[x > 0]
    assert fake.host_syncs() == before + 3
    torch.cuda.synchronize()
    assert fake.host_syncs() == before + 4


def check_memory_statistics():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == before + 10 * MIB
    assert torch.cuda.memory_reserved() <= fake.used(0)
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() == before + 10 * MIB
    used = fake.used(0)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert fake.used(0) < used
    assert "active.all.current" in torch.cuda.memory_stats()


def check_snapshot_and_history():
    torch.cuda.memory._record_memory_history()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    address = x.data_ptr()
    del x
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry["action"] for entry in snapshot["device_traces"][0] if entry["addr"] == address]
    assert actions[-3:] == ["alloc", "free_requested", "free_completed"], actions


def check_streams_and_events():
    side = torch.cuda.Stream(priority=-1)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x = torch.full((1000,), 2.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        begin.record()
        y = x * 3
        end.record()
    torch.cuda.current_stream().wait_event(end)
    assert (y + 1).sum().item() == 7000
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) >= 0
    torch.cuda.synchronize()


def check_a_missing_wait_shows():
    """The reason for schedules: what a stream does not wait for may not be there yet."""
    side = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    sleeping(side)
    with torch.cuda.stream(side):
        x.fill_(1)
        done = side.record_event()
    assert not done.query()
    assert x.sum().item() == 0  # no wait
    torch.cuda.current_stream().wait_event(done)
    assert x.sum().item() == 1000
    fake.release(side.cuda_stream)
    torch.cuda.synchronize()
    assert fake.pending() == 0


def check_memory_in_use_by_a_stream_is_not_reused():
    side = torch.cuda.Stream()
    x = torch.ones(2 * MIB, device="cuda")
    kept = torch.zeros(2 * MIB, device="cuda")
    torch.cuda.synchronize()
    sleeping(side)
    with torch.cuda.stream(side):
        kept.copy_(x)
    x.record_stream(side)
    address = x.data_ptr()
    del x
    others = [torch.zeros(2 * MIB, device="cuda") for _ in range(3)]
    assert address not in [t.data_ptr() for t in others]
    fake.release(side.cuda_stream)
    side.synchronize()
    assert kept.min().item() == 1
    torch.cuda.synchronize()


def check_memory_that_was_freed_too_early_is_poison():
    """What record_stream is for: without it, the side stream reads what the next owner wrote."""
    side = torch.cuda.Stream()
    x = torch.ones(2 * MIB, device="cuda")
    late = torch.zeros(2 * MIB, device="cuda")
    torch.cuda.synchronize()
    sleeping(side)
    with torch.cuda.stream(side):
        late.copy_(x)
    del x
    other = torch.zeros(2 * MIB, device="cuda")
    torch.cuda.current_stream().synchronize()
    fake.release(side.cuda_stream)
    side.synchronize()
    assert not (late == 1).any().item()
    del other
    torch.cuda.synchronize()


def check_memory_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.empty(4 * MIB, device="cuda")
    assert len(pool.snapshot()) == 1
    del x, pool


def check_two_devices():
    a = torch.arange(100.0, device="cuda:0")
    b = a.to("cuda:1")
    assert b.device.index == 1
    with torch.cuda.device(1):
        c = torch.ones(100, device="cuda") + b
    assert torch.equal(c.cpu(), torch.arange(1.0, 101))
    assert torch.equal(c.view(10, 10).t().to("cuda:0").cpu(), torch.arange(1.0, 101).view(10, 10).t())
    assert fake.used(1) > 0


def check_out_of_memory_and_recovery():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    total = torch.cuda.mem_get_info()[1]
    held = []
    try:
        while True:
            held.append(torch.empty(total // 8, dtype=torch.int8, device="cuda"))
    except torch.OutOfMemoryError as error:
        assert "out of memory" in str(error)
    assert 5 <= len(held) <= 8
    held.clear()
    torch.cuda.empty_cache()
    assert torch.empty(total // 2, dtype=torch.int8, device="cuda").numel() == total // 2
    torch.cuda.empty_cache()


def check_memory_fraction():
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        torch.empty(torch.cuda.mem_get_info()[1] // 5, dtype=torch.int8, device="cuda")
    except torch.OutOfMemoryError:
        return
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    raise AssertionError("more than its fraction")


def check_injected_failures():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    call = "cuMemCreate" if fake.calls("cuMemMap") else "cudaMalloc"
    before = torch.cuda.memory_allocated()
    # The allocator gives its cached memory back and tries again: two failures are one of the program.
    fake.fail(call, 1)
    fake.fail(call, 2)
    try:
        torch.empty(64 * MIB, dtype=torch.int8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("succeeded")
    fake.stop_failing()
    assert torch.cuda.memory_allocated() == before
    assert torch.ones(64 * MIB, dtype=torch.int8, device="cuda")[-1].item() == 1
    torch.cuda.empty_cache()


def check_graphs_repeat_what_they_captured():
    x = torch.zeros(1000, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (x * 2 + 1).relu()  # warmed up, as PyTorch asks
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1).relu()
        x.add_(1)
    torch.cuda.synchronize()
    assert x.sum().item() == 0, "the capture itself did what it recorded"
    for n in range(3):
        graph.replay()
        assert y[0].item() == 2 * n + 1 and x[0].item() == n + 1
    graph.reset()


def check_random_numbers_are_the_cpus():
    torch.manual_seed(3)
    a = torch.randn(100), torch.rand(5, 5), torch.randint(0, 9, (7,))
    torch.manual_seed(3)
    b = torch.randn(100, device="cuda"), torch.rand(5, 5, device="cuda"), torch.randint(0, 9, (7,), device="cuda")
    assert all(torch.equal(x, y.cpu()) for x, y in zip(a, b))


def check_operators():
    x = torch.randn(40, 30)
    y = x.cuda()
    for f in (
        lambda t: t.sort(0).values,
        lambda t: t.topk(3).indices,
        lambda t: t.cumsum(1),
        lambda t: t[t[:, 0] > 0],
        lambda t: t.nonzero(),
        lambda t: torch.where(t > 0, t, 2.0),
        lambda t: t @ t.T,
        lambda t: torch.cat([t, t.abs()]),
        lambda t: t.half().float(),
        lambda t: torch.fft.rfft(t).abs(),
        lambda t: t.new_empty(0).resize_(3).fill_(2),
        lambda t: torch.add(t, 1, out=t.new_empty(0)),
        lambda t: t.clone().index_put_((torch.tensor([1, 1], device=t.device),), t[2], accumulate=True),
        lambda t: torch.stack(torch._foreach_mul([t, t + 1], 3.0)),
    ):
        for _ in range(2):  # the second may be late
            assert torch.equal(f(x), f(y).cpu())


if __name__ == "__main__":
    results = {}
    for name, check in list(globals().items()):
        if not name.startswith("check_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        try:
            check()
            results[name] = None
        except BaseException:
            results[name] = traceback.format_exc(limit=-4)
            fake.stop_failing()
    results["faults"] = f"{fake.faults()} faults" if fake.faults() else None
    print(json.dumps(results))
