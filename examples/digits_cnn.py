# SPDX-License-Identifier: Apache-2.0
"""Trains a residual network on scikit-learn's handwritten digits, enlarged to 64 x 64.

The images are real, ship inside scikit-learn, and are enlarged batch by batch, so nearly all memory
that training needs is what autograd saves for backward.

    python examples/digits_cnn.py --epochs 3 --json metrics.json
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn


def conv_norm(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    """Two 3 x 3 convolutions beside an identity."""

    def __init__(self, channels: int):
        super().__init__()
        self.body = nn.Sequential(
            *conv_norm(channels, channels), nn.ReLU(inplace=True), *conv_norm(channels, channels)
        )
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.activation(self.body(x).add_(x))


class ResNet(nn.Module):
    """Stages of residual blocks; max-pooling between them halves the sides, and channels double."""

    def __init__(self, width: int, blocks: list[int], classes: int = 10):
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 1
        for stage, count in enumerate(blocks):
            channels = width << stage
            if stage:
                layers.append(nn.MaxPool2d(2))
            layers += [*conv_norm(inputs, channels), nn.ReLU(inplace=True)]
            layers += [Residual(channels) for _ in range(count)]
            inputs = channels
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


def load_data(seed: int):
    """Returns (train images, train labels, test images, test labels); images are N x 1 x 8 x 8."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target)
    train, test = train_test_split(
        range(len(labels)), test_size=0.25, random_state=seed, stratify=digits.target
    )
    return images[train], labels[train], images[test], labels[test]


def enlarge(images, size: int):
    return F.interpolate(images, size=(size, size), mode="bilinear", align_corners=False)


def test_accuracy(model, images, labels, size: int, batch: int) -> float:
    model.eval()
    with torch.no_grad():
        hits = sum(
            (model(enlarge(x, size)).argmax(1) == y).sum().item()
            for x, y in zip(images.split(batch), labels.split(batch))
        )
    return hits / len(labels)


def memory_bytes(field: str) -> int:
    """A field of /proc/self/status in bytes: VmRSS is memory now, VmHWM is its peak so far."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=64, help="side of the enlarged images")
    parser.add_argument("--width", type=int, default=32, help="channels of the first stage")
    parser.add_argument("--blocks", type=int, nargs="+", default=[5, 4, 3, 1], help="residual blocks per stage")
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE", help="write metrics to FILE")
    args = parser.parse_args()

    # Growth of memory is counted from here: after imports, before data, model and optimizer.
    rss_after_imports = memory_bytes("VmRSS")

    torch.manual_seed(args.seed)
    train_images, train_labels, test_images, test_labels = load_data(args.seed)
    model = ResNet(args.width, args.blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    steps_per_epoch = len(train_labels) // args.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.epochs * steps_per_epoch
    )

    losses, step_seconds = [], []
    train_start = time.perf_counter()
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(train_labels))
        total = 0.0
        for step in range(steps_per_epoch):
            step_start = time.perf_counter()
            chosen = order[step * args.batch : (step + 1) * args.batch]
            loss = F.cross_entropy(model(enlarge(train_images[chosen], args.size)), train_labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
            step_seconds.append(time.perf_counter() - step_start)
            if (step + 1) % 6 == 0:
                print(
                    f"epoch {epoch + 1}/{args.epochs}, step {step + 1}/{steps_per_epoch}: loss {total / (step + 1):.4f}",
                    flush=True,
                )
        losses.append(total / steps_per_epoch)
    train_seconds = time.perf_counter() - train_start

    accuracy = test_accuracy(model, test_images, test_labels, args.size, args.batch)
    print(f"test accuracy {accuracy:.2%}, {train_seconds:.1f} s of training")

    if args.json:
        peak_rss = memory_bytes("VmHWM")
        metrics = {
            "test_accuracy": accuracy,
            "losses": losses,
            "train_seconds": train_seconds,
            "median_step_seconds": statistics.median(step_seconds),
            "steps": len(step_seconds),
            "peak_rss_bytes": peak_rss,
            "peak_rss_growth_bytes": peak_rss - rss_after_imports,
        }
        with open(args.json, "w") as file:
            json.dump(metrics, file, indent=2)


if __name__ == "__main__":
    main()
