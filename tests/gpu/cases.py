# SPDX-License-Identifier: Apache-2.0
"""What stage `train` trains. Needs no torch: models.py makes the networks."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Case:
    """`make` names a function of models.py; `batch` is for a GPU of 80 GB, `tiny_batch` for the fake."""

    make: str
    bf16: bool
    channels_last: bool
    batch: int
    tiny_batch: int
    items: int  # of a sample: images or tokens
    unit: str


# In the order of what they settle: a stage that runs out of time leaves the last ones out.
CASES = {
    "resnet50-bf16-cl": Case("resnet50", True, True, 256, 8, 1, "img"),
    "gpt2-bf16": Case("gpt2", True, False, 16, 2, 1024, "token"),
    "llama-bf16": Case("llama", True, False, 16, 2, 1024, "token"),
    "resnet50-tf32": Case("resnet50", False, False, 256, 8, 1, "img"),
    "vit-bf16": Case("vit_b16", True, False, 128, 4, 1, "img"),
    "unet-bf16-cl": Case("unet", True, True, 32, 4, 1, "img"),
    "swin-bf16": Case("swin_t", True, False, 128, 4, 1, "img"),
    "resnet50-tf32-cl": Case("resnet50", False, True, 256, 8, 1, "img"),
    "resnet50-bf16": Case("resnet50", True, False, 256, 8, 1, "img"),
}
