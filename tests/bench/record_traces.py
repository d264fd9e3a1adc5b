#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what trainings at realistic shapes ask of PyTorch's CUDA allocator: traces for `cinch replay`.

    .venv/bin/python tests/bench/record_traces.py FOLDER [--build build] [--model NAME…] [--steps N]

Each model trains in a process of its own on the fake CUDA runtime (docs/fakecuda.md) without computing
anything, so that batches are of any size: PyTorch's own allocator, autograd's threads, autocast, gradient
scaling, optimizers and a prefetcher's stream make the calls that they make on a GPU, and the allocator's
history is what is written down. What kernels allocate for themselves (workspaces of cuDNN and cuBLAS) is
not in the traces. Needs build/lib/libfakecuda.so.
"""

import argparse
import gc
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 256 << 30  # of the device: no trace is to be bound by it
HISTORY = ["free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot"]


class Recorder:
    """PyTorch's own history of its allocator, as a trace."""

    def __init__(self):
        self.lines, self.live, self.streams, self.count = [], {}, {0: 0}, 0
        self.clear()

    def clear(self):
        torch.cuda.memory._record_memory_history(context=None, skip_actions=HISTORY, clear_history=True)

    def end_step(self):
        """Writes down what came since the last call, and the step's end."""
        for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
            if entry["action"] == "alloc":
                self.live[entry["addr"]] = self.count
                stream = self.streams.setdefault(entry["stream"], len(self.streams))
                self.lines.append(f"a {entry['size']} {stream}")
                if stream != 0:  # a prefetched batch, of which the main stream is told
                    self.lines.append(f"r {self.count} 0")
                self.count += 1
            elif entry["action"] == "free_requested":
                self.lines.append(f"f {self.live.pop(entry['addr'])}")
        self.lines.append("s")
        self.clear()


class Prefetcher:
    """Copies the next batch in a stream of its own, as NVIDIA's examples do."""

    def __init__(self, draw):
        self.draw, self.stream, self.next = draw, torch.cuda.Stream(), None
        self.fetch()

    def fetch(self):
        with torch.cuda.stream(self.stream):
            self.next = [tensor.cuda(non_blocking=True) for tensor in self.draw()]

    def __call__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.next
        for tensor in batch:
            tensor.record_stream(torch.cuda.current_stream())
        self.fetch()
        return batch


def images(batch, *size):
    return torch.zeros(1, 1, 1, 1).expand(batch, 3, *size).contiguous()


def words(batch, length):
    return torch.zeros(batch, length, dtype=torch.long)


class Classifier(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model.to(memory_format=torch.channels_last)

    def forward(self, pictures, labels):
        return F.cross_entropy(self.model(pictures.contiguous(memory_format=torch.channels_last)), labels)


def resnet50():
    import torchvision

    return Classifier(torchvision.models.resnet50()), lambda: (images(256, 224, 224), words(1, 256)[0])


def mobilenet_v2():
    import torchvision

    return Classifier(torchvision.models.mobilenet_v2()), lambda: (images(256, 224, 224), words(1, 256)[0])


class LanguageModel(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask=None):
        return self.model(input_ids=ids, attention_mask=mask, labels=ids).loss


def gpt_varying_length():
    import transformers

    chance = random.Random("gpt")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))
    return LanguageModel(model), lambda: (words(8, chance.randint(128, 1024)),)


def bert_dynamic_padding():
    import transformers

    chance = random.Random("bert")

    def draw():
        """64 sentences, padded to the longest, a multiple of 8."""
        longest = max(min(512, int(chance.lognormvariate(4.2, 0.5))) for _ in range(64))
        ids = words(64, -(-longest // 8) * 8)
        return ids, torch.ones_like(ids)

    config = transformers.BertConfig(attn_implementation="eager")
    return LanguageModel(transformers.BertForMaskedLM(config)), draw


def double_conv(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self, width=64, depth=4):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip([3, *widths[:-1]], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths[:-1], widths[1:]))
        self.join = nn.ModuleList(double_conv(b, a) for a, b in zip(widths[:-1], widths[1:]))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x, labels):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.join[i](torch.cat([skips[i], self.up[i](x)], 1))
        return F.cross_entropy(self.head(x), labels)


def unet():
    return UNet(), lambda: (images(8, 640, 640), torch.zeros(8, 640, 640, dtype=torch.long))


class Detector(nn.Module):
    """A backbone with a feature pyramid over images of changing size, anchors at every place, and heads over
    changing numbers of boxes."""

    def __init__(self):
        super().__init__()
        from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

        self.backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=5)
        self.shared, self.scores, self.anchors = nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(256, 3, 1), nn.Conv2d(256, 12, 1)
        self.head = nn.Sequential(nn.Linear(256 * 49, 1024), nn.ReLU(True), nn.Linear(1024, 1024), nn.ReLU(True))
        self.classes, self.boxes = nn.Linear(1024, 91), nn.Linear(1024, 364)

    def forward(self, pictures, *boxes):
        levels = list(self.backbone(pictures).values())
        loss = 0
        for level in levels:
            hidden = F.relu(self.shared(level))
            loss = loss + self.scores(hidden).square().mean() + self.anchors(hidden).abs().mean()
        places = torch.linspace(0, 1, 7, device=pictures.device)
        for level, found in zip(levels, boxes):  # each image has as many boxes on a level
            grid = found[:, None, None, :2] + found[:, None, None, 2:] * torch.cartesian_prod(places, places).view(7, 7, 2)
            grid = grid.flatten(0, 1).expand(len(level), -1, -1, -1)
            regions = F.grid_sample(level, grid, align_corners=False).unflatten(2, (len(found), 7)).transpose(1, 2)
            hidden = self.head(regions.flatten(0, 1).flatten(1))
            loss = loss + F.cross_entropy(self.classes(hidden), hidden.new_zeros(len(hidden), dtype=torch.long))
            loss = loss + self.boxes(hidden).abs().mean()
        return loss


def detector_varying_boxes():
    chance = random.Random("detector")

    def draw():
        size = sorted(32 * chance.randint(20, 42) for _ in range(2))
        return images(4, *size), *(torch.zeros(chance.randint(8, 256), 4) for _ in range(4))

    return Detector(), draw


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3)


# Model and batches, optimizer, type under autocast.
MODELS = {
    "resnet50": (resnet50, sgd, torch.bfloat16),
    "mobilenet_v2": (mobilenet_v2, sgd, torch.float16),
    "gpt_varying_length": (gpt_varying_length, adamw, torch.bfloat16),
    "bert_dynamic_padding": (bert_dynamic_padding, adamw, torch.float16),
    "unet": (unet, adamw, torch.bfloat16),
    "detector_varying_boxes": (detector_varying_boxes, sgd, None),
}


def training(name, steps):
    """Trains on this process's device; yields when all is set up and after each step."""
    make, optimize, low = MODELS[name]
    model, draw = make()
    model.cuda().train()
    optimizer = optimize(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=low == torch.float16)
    batches = Prefetcher(draw)
    gc.disable()  # collections at the whim of Python's counters would come at others in another run
    yield
    for _ in range(steps):
        with torch.autocast("cuda", low, enabled=low is not None):
            loss = model(*batches())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        loss.item()
        del loss
        yield


def record(name, steps):
    """The trace's text. @pre this process has a device"""
    torch.cuda.init()
    recorder = Recorder()
    for _ in training(name, steps):
        recorder.end_step()
    _, optimize, low = MODELS[name]
    precision = "float32" if low is None else f"autocast to {str(low).split('.')[1]}"
    title = f"{name}, {steps} steps of {optimize.__name__}, {precision}, on fakecuda, torch {torch.__version__.split('+')[0]}"
    return "\n".join(["cinch-trace 1", f"# {title}", *recorder.lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--on-device", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.on_device:
        (args.folder / f"{args.model[0]}.text").write_text(record(args.model[0], args.steps))
        return
    sys.path.insert(0, str(ROOT / "tests/fakecuda"))
    os.environ["CINCH_BUILD_DIR"] = str(args.build.resolve())
    import fakecuda

    if not fakecuda.available():
        parser.error(f"{args.build} has no fake CUDA runtime")
    args.folder.mkdir(parents=True, exist_ok=True)
    env = fakecuda.environment(dict(os.environ), compute=False, kernels=False, memory=MEMORY)
    for name in args.model:
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / f"{name}.text"
            again = [sys.executable, "-W", "ignore", __file__, folder, "--on-device", "--model", name]
            subprocess.run([*again, "--steps", str(args.steps)], env=env, check=True)
            print(f"{name}: {text.read_text().count(chr(10) + 'a ')} allocations", flush=True)
            trace = args.folder / f"{name}.trace"
            subprocess.run([args.build / "bin/cinch", "replay", "--write", trace, text], check=True)


if __name__ == "__main__":
    main()
