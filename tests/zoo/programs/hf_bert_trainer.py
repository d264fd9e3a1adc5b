# SPDX-License-Identifier: Apache-2.0
"""BERT for masked bytes by transformers' Trainer, in bf16, with accumulation of gradients."""

import tempfile

import torch
from data import lines, metric, say, seed
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments

number = seed()


def examples(count):
    x, _ = lines(64, count)
    hidden = torch.rand(x.shape) < 0.15
    return [{"input_ids": a.masked_fill(h, 127), "labels": a.masked_fill(~h, -100)} for a, h in zip(x, hidden)]


class Say(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in (logs or {}):
            say(state.global_step, logs["loss"])


config = BertConfig(
    vocab_size=128, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
    max_position_embeddings=64,
)  # fmt: skip
model = BertForMaskedLM(config)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, per_device_train_batch_size=16, gradient_accumulation_steps=2, max_steps=12,
        learning_rate=2e-3, bf16=True, logging_steps=4, save_strategy="no", report_to=[], use_cpu=True, seed=number,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=examples(400), callbacks=[Say()])
    trainer.train()
    torch.manual_seed(1)
    trainer.eval_dataset = examples(64)
    metric("loss", trainer.evaluate()["eval_loss"])
