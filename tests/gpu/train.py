# SPDX-License-Identifier: Apache-2.0
"""Trains one of cases.CASES as told on stdin, so that several such processes (plain, and under
policies) can take turns on one GPU.

    python train.py CASE [--tiny] [--fake] [--deterministic]

A request is a line of JSON with "do"; so is each answer. Nothing touches the GPU before "start".
"""

import argparse
import contextlib
import ctypes
import gc
import hashlib
import json
import os
import sys
import tempfile
import time

import torch

import cinch_here
import models
from cases import CASES

ROTATED = 3  # different batches that take turns, for the loss to have something to learn


def is_out_of_memory(error: RuntimeError) -> bool:
    text = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in text or "ALLOC_FAILED" in text


class Training:
    def __init__(self, options: argparse.Namespace):
        self.case = CASES[options.case]
        self.tiny = options.tiny
        if options.fake:  # what it has no kernels for (docs/fakecuda.md)
            torch.backends.cudnn.enabled = False
            torch.backends.cuda.enable_flash_sdp(False)
            torch.backends.cuda.enable_mem_efficient_sdp(False)
            torch.backends.cuda.enable_cudnn_sdp(False)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = not options.tiny and not options.deterministic
        if options.deterministic:  # for runs that are compared bit by bit
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True, warn_only=True)
        torch.manual_seed(0)
        self.made = getattr(models, self.case.make)(options.tiny)
        self.size = 0  # samples of a batch
        self.taken = 0  # steps

    def context(self):
        if self.case.bf16:
            return torch.autocast("cuda", torch.bfloat16)
        return contextlib.nullcontext()

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The next one, made anew, so that only one is in memory, as with a data loader."""
        self.generator.manual_seed(1 + self.taken % ROTATED)
        x, target = self.made.batch(self.size, self.generator)
        if self.case.channels_last and x.dim() == 4:
            x = x.to(memory_format=torch.channels_last)
        return x, target

    def step(self) -> torch.Tensor:
        x, target = self.batch()
        self.taken += 1
        self.optimizer.zero_grad(set_to_none=True)
        with self.context():
            loss = self.made.loss(self.made.model(x), target)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def on_device(self):
        model = self.made.model.cuda().train()
        if self.case.channels_last:
            model.to(memory_format=torch.channels_last)
        self.generator = torch.Generator("cuda")
        self.optimizer = self.made.optimizer(model.parameters())

    def steps(self, count: int) -> dict:
        """Each timed with CUDA events; the host waits only at the end."""
        torch.cuda.synchronize()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        start = time.perf_counter()
        events[0].record()
        losses = []
        for event in events[1:]:
            losses.append(self.step())
            event.record()
        torch.cuda.synchronize()
        wall = (time.perf_counter() - start) * 1e3 / count
        return {
            "milliseconds": [a.elapsed_time(b) for a, b in zip(events, events[1:])],
            "wall_milliseconds": wall,
            "losses": [loss.item() for loss in losses],
        }

    # Requests.

    def prepare(self, batch: int) -> dict:
        """To the GPU: what needs no turn."""
        self.on_device()
        self.size = batch
        return {}

    def start(self, steps: int, idle: bool) -> dict:
        """The first steps, which choose algorithms; `idle` as in round()."""
        result = self.steps(steps)
        if idle:
            self.give_back()
        return result

    def give_back(self):
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()

    def round(self, steps: int, idle: bool) -> dict:
        """`idle`: others train in the meantime, so the cache of free memory is given back; the step
        that fills it again is not timed."""
        first = self.steps(1)
        torch.cuda.reset_peak_memory_stats()
        rest = self.steps(steps)
        memory = {
            "allocated": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.max_memory_reserved(),
        }
        if idle:
            self.give_back()
        return rest | memory | {"losses": first["losses"] + rest["losses"]}

    def largest(self, batch: int, bytes: int, seconds: float) -> dict:
        """The largest batch whose step fits into `bytes`: doubled from `batch` until it does not,
        then three halvings of the gap, as long as there is time."""
        self.on_device()
        until = time.monotonic() + seconds
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, bytes / total))
        torch.backends.cudnn.benchmark = False  # trying algorithms takes memory
        fits, fails = 0, None
        while time.monotonic() < until:
            attempt = batch if fits == 0 and fails is None else 2 * fits if fails is None else (fits + fails) // 2
            if fails is not None and fails - fits <= max(1, fits // 8):
                break
            if self.fits(attempt):
                fits = attempt
            else:
                fails = attempt
        torch.cuda.set_per_process_memory_fraction(1.0)
        return {"largest": fits, "fails": fails}

    def fits(self, batch: int) -> bool:
        try:
            self.size = batch
            self.step()
            self.step()
            torch.cuda.synchronize()
            return True
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            self.optimizer.zero_grad(set_to_none=True)
            gc.collect()
            torch.cuda.empty_cache()

    def some_steps_in(self, batch: int, bytes: int, steps: int) -> dict:
        """Trains in `bytes` of device memory: {"losses"}, or {"out_of_memory"}."""
        self.on_device()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, bytes / total))
        torch.backends.cudnn.benchmark = False
        try:
            self.size = batch
            losses = [self.step().item() for _ in range(steps)]
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return {"out_of_memory": str(error)[:200]}
        return {"losses": losses, "allocated": torch.cuda.max_memory_allocated()}

    def timeline(self, steps: int) -> dict:
        """Device seconds of a few steps' kernels: Cinch's, and how much of that time kernels of other
        streams ran as well."""
        activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities) as profile:
            for _ in range(steps):
                self.step()
            torch.cuda.synchronize()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            profile.export_chrome_trace(file.name)
            with open(file.name) as trace:
                events = json.load(trace)["traceEvents"]
        kernels = [e for e in events if e.get("cat") == "kernel"]
        ours = [e for e in kernels if "cinch" in e["name"]]
        our_streams = {e["args"].get("stream") for e in ours}
        others = merged([e for e in kernels if "cinch" not in e["name"]])
        mine = merged(ours)
        return {
            "kernels": len(kernels),
            "cinch_kernels": len(ours),
            "cinch_streams": len(our_streams),
            "cinch_ms": sum(b - a for a, b in mine) / 1e3 / steps,
            "hidden_ms": overlap(mine, others) / 1e3 / steps,
            "compute_ms": sum(b - a for a, b in others) / 1e3 / steps,
        }

    def fingerprint(self) -> dict:
        """One number that two trainings share only if their weights are the same, bit for bit."""
        digest = hashlib.sha256()
        for value in self.made.model.state_dict().values():
            held = value.detach().cpu().contiguous()
            digest.update(ctypes.string_at(held.data_ptr(), held.nbytes))  # numpy may be missing
        return {"weights": digest.hexdigest()}

    def end(self) -> dict:
        now = cinch_here.report()
        return {"stash_bytes": cinch_here.stash_bytes(), "active": now is not None and now["active"],
                "allocator": cinch_here.allocator() is not None}  # fmt: skip


def merged(events: list[dict]) -> list[tuple[float, float]]:
    """The events' times as disjoint intervals, in order."""
    out: list[list[float]] = []
    for begin, end in sorted((e["ts"], e["ts"] + e.get("dur", 0)) for e in events):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return [(begin, end) for begin, end in out]


def overlap(left: list[tuple[float, float]], right: list[tuple[float, float]]) -> float:
    total, i, j = 0.0, 0, 0
    while i < len(left) and j < len(right):
        total += max(0.0, min(left[i][1], right[j][1]) - max(left[i][0], right[j][0]))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return total


def answer(content: dict):
    print(json.dumps(content), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--deterministic", action="store_true")
    try:
        training = Training(parser.parse_args())
    except ImportError as error:
        answer({"missing": str(error)})
        return
    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        do = request.pop("do")
        try:
            result = getattr(training, do)(**request)
        except RuntimeError as error:
            result = {"error": f"{type(error).__name__}: {error}"[:400], "out_of_memory": is_out_of_memory(error)}
        answer(result)
        if do == "end":
            return


if __name__ == "__main__":
    main()
