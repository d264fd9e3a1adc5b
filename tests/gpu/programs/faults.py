# SPDX-License-Identifier: Apache-2.0
"""Programs that meet trouble; each prints what came of it.

    python faults.py WHAT [--fake]
"""

import gc
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import cinch_here  # noqa: E402

FAKE = "--fake" in sys.argv
if FAKE:
    torch.backends.cudnn.enabled = False
SIZE, EDGE = (8, 16) if FAKE else (64, 64)


def made(dropout: float = 0.0):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.Dropout(dropout), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10),
    ).cuda()  # fmt: skip
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def batch(size: int = SIZE):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, 3, EDGE, EDGE, generator=generator)
    return x.cuda(), (torch.arange(size) % 10).cuda()


def step(model, optimizer, x, y) -> float:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def state(figure: str, wrong: str | None = None) -> dict:
    gc.collect()
    return {"figure": figure, "wrong": wrong, "taken": cinch_here.taken(), "stash_bytes": cinch_here.stash_bytes()}


def train() -> dict:
    free, _ = torch.cuda.mem_get_info()
    model, optimizer = made()
    x, y = batch()
    losses = [step(model, optimizer, x, y) for _ in range(8)]
    return state("") | {"losses": losses, "free": free}


def endless() -> dict:
    model, optimizer = made()
    x, y = batch()
    while True:
        print(step(model, optimizer, x, y), flush=True)


def backward_exception() -> dict:
    model, optimizer = made()
    x, y = batch()
    step(model, optimizer, x, y)
    model.zero_grad(set_to_none=True)
    gc.collect()
    before = torch.cuda.memory_allocated()

    def fails(gradient):
        raise ValueError("as told")

    caught = 0
    for layer in (1, 3, 6):
        h = x
        for index, module in enumerate(model):
            h = module(h)
            if index == layer:
                h.register_hook(fails)
        try:
            F.cross_entropy(h, y).backward()
        except ValueError:
            caught += 1
        del h
        model.zero_grad(set_to_none=True)
    gc.collect()
    torch.cuda.synchronize()
    more = torch.cuda.memory_allocated() - before
    losses = [step(model, optimizer, x, y) for _ in range(5)]
    wrong = None
    if caught != 3:
        wrong = f"{caught} of 3 exceptions came through"
    elif more > 1 << 20:
        wrong = f"{more} bytes stayed allocated"
    elif not losses[-1] < losses[0]:
        wrong = f"training did not go on: {losses}"
    return state("3 exceptions, nothing left behind, training goes on", wrong)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * SIZE

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        # Saved tensors in the worker too. (Backward in a fork is what PyTorch itself refuses.)
        w = torch.ones(3, EDGE, EDGE, requires_grad=True)
        x = torch.randn(3, EDGE, EDGE, generator=generator)
        y = (x * w).exp().log()
        return y.detach(), index % 10


def dataloader() -> dict:
    model, optimizer = made()
    x, y = batch()
    first = step(model, optimizer, x, y)  # CUDA is initialised before the fork
    loader = torch.utils.data.DataLoader(
        Numbers(), SIZE, num_workers=2, multiprocessing_context="fork", pin_memory=not FAKE, timeout=60
    )
    losses = []
    for _ in range(2):
        for x, y in loader:
            losses.append(step(model, optimizer, x.cuda(non_blocking=True), y.cuda(non_blocking=True)))
    wrong = None if len(losses) == 8 and all(v == v for v in [first, *losses]) else f"losses: {losses}"
    return state("2 epochs with 2 workers", wrong)


def graphs() -> dict:
    """The whole network captured, and make_graphed_callables, beside eager (exact: lossless)."""
    model, _ = made()
    x, y = batch()
    static = x.clone()

    def gradients() -> list[torch.Tensor]:
        return [p.grad.clone() for p in model.parameters()]

    def eager(source) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(source), y).backward()
        return gradients()

    expected = eager(x * 2)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            eager(static)
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        F.cross_entropy(model(static), y).backward()
    static.copy_(x * 2)
    graph.replay()
    torch.cuda.synchronize()

    def differs(found) -> float:
        return max(float((a - b).norm() / (b.norm() + 1e-12)) for a, b in zip(found, expected))

    captured = differs(gradients())
    model.zero_grad(set_to_none=True)
    graphed = torch.cuda.make_graphed_callables(model, (x.clone(),))
    F.cross_entropy(graphed(x * 2), y).backward()
    torch.cuda.synchronize()
    callables = differs(gradients())
    afterwards = differs(eager(x * 2))
    if FAKE:  # torch's operators run on it while they are captured, and not at a replay
        captured = callables = 0.0
    wrong = None
    if afterwards > (0 if FAKE else 1e-2):
        wrong = f"eager gradients after the captures differ by {afterwards:.2g} from those before"
    elif max(captured, callables) > 1e-2:
        wrong = f"gradients differ from eager's by {captured:.2g} (capture) and {callables:.2g} (make_graphed_callables)"
    figure = f"gradients as eager's within {max(captured, callables):.1g}"
    return state("captured and replayed, eager gradients unchanged by it" if FAKE else figure, wrong)


def out_of_memory() -> dict:
    model, optimizer = made()
    x, y = batch()
    first = step(model, optimizer, x, y)
    _, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (8 << 20)) / total)
    raised = 0
    for _ in range(3):
        try:
            step(model, optimizer, *batch(SIZE * (400 if FAKE else 40)))
        except torch.OutOfMemoryError:
            raised += 1
        model.zero_grad(set_to_none=True)
        gc.collect()
    torch.cuda.set_per_process_memory_fraction(1.0)
    last = [step(model, optimizer, x, y) for _ in range(6)][-1]
    wrong = None if raised == 3 and last < first else f"{raised} of 3 raised; loss {first} to {last}"
    return state("3 times raised, training goes on", wrong)


def physical_out_of_memory() -> dict:
    """All of the device's memory, not a share of it: with CUDA_MODULE_LOADING=LAZY kernels that were not loaded
    before need some when there is none."""
    model, optimizer = made()
    x, y = batch()
    first = step(model, optimizer, x, y)
    larger = torch.randn(SIZE * 4, 3, EDGE * 2, EDGE * 2)
    held, raised = [], 0
    size = 1 << 30
    while size >= 1 << 20:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    for _ in range(3):
        try:
            step(model, optimizer, larger.cuda(), (torch.arange(SIZE * 4) % 10).cuda())
        except RuntimeError as error:
            if "out of memory" not in str(error) and "ALLOC_FAILED" not in str(error):
                raise
            raised += 1
        model.zero_grad(set_to_none=True)
        gc.collect()
    held.clear()
    torch.cuda.empty_cache()
    losses = [step(model, optimizer, x, y) for _ in range(6)]
    wrong = None if raised == 3 and losses[-1] < first else f"{raised} of 3 raised; loss {first} to {losses[-1]}"
    return state("3 times raised, training goes on", wrong)


def device_assert() -> dict:
    """The context is lost; the program must be told by an exception, and be able to end."""
    model, optimizer = made()
    x, y = batch()
    step(model, optimizer, x, y)
    taken = cinch_here.taken()
    said = None
    try:
        F.cross_entropy(model(x), y + 5).backward()  # classes that there are not
        torch.cuda.synchronize()
    except Exception as error:
        said = type(error).__name__
    return {"figure": f"told by {said}; the program ends", "wrong": None if said else "nothing was raised", "taken": taken,
            "stash_bytes": 0}  # fmt: skip


if __name__ == "__main__":
    result = globals()[sys.argv[1]]()
    print(json.dumps(result), flush=True)
