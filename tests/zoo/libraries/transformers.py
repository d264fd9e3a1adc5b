# SPDX-License-Identifier: Apache-2.0
"""Language, sequence and image models of transformers that their configuration lets be made small."""

import torch
import torchvision  # noqa: F401 - here and not in each child, as the models below
import transformers
from transformers import BartModel, BertModel, LlamaModel, ViTModel  # noqa: F401
from transformers.models.auto import modeling_auto

from libraries.common import by_name

# What configurations call how large they are, and what is small enough.
SMALL = {
    "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim": 64,
    "hidden_dim": 128,
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers": 2,
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads": 4,
    "num_key_value_heads n_shared_experts num_shared_experts linear_num_key_heads num_experts_per_tok": 2,
    "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner ffn_hidden_size": 160,
    "moe_intermediate_size shared_expert_intermediate_size": 48,
    "vocab_size vocab_size_per_layer_input": 256,
    "head_dim d_kv attention_head_size rotary_dim kv_lora_rank q_lora_rank v_head_dim state_size mamba_d_state": 16,
    "num_local_experts num_experts n_routed_experts moe_num_experts mamba_n_heads linear_num_value_heads": 4,
    "qk_rope_head_dim qk_nope_head_dim": 8,
    "max_position_embeddings n_positions": 128,
    "image_size lru_width": 64,
    "n_group topk_group first_k_dense_replace": 1,
    "sliding_window": 32,
    "pad_token_id": 0,
    "bos_token_id decoder_start_token_id": 1,
    "eos_token_id": 2,
}
KINDS = {
    "CAUSAL_LM": "AutoModelForCausalLM",
    "MASKED_LM": "AutoModelForMaskedLM",
    "SEQ_TO_SEQ_CAUSAL_LM": "AutoModelForSeq2SeqLM",
    "IMAGE_CLASSIFICATION": "AutoModelForImageClassification",
}


def shrink(config):
    """Sets all sizes of a configuration, and of those within it, that are single numbers."""
    for name, size in by_name(SMALL).items():
        old = getattr(config, name, None)
        if isinstance(old, (int, float)) or name.endswith("token_id"):
            try:
                setattr(config, name, size)
            except Exception:
                pass
    kinds = getattr(config, "layer_types", None)
    if isinstance(kinds, list):
        config.layer_types = (list(dict.fromkeys(kinds)) * 2)[: max(2, len(set(kinds)))]
        config.num_hidden_layers = len(config.layer_types)
    for part in vars(config).values():
        if hasattr(part, "to_dict"):
            shrink(part)
    return config


def names() -> list[str]:
    mappings = ((kind, getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES")) for kind in KINDS)
    return [f"{kind}:{name}" for kind, mapping in mappings for name in mapping]


def make(name: str):
    kind, name = name.split(":")
    config = shrink(transformers.AutoConfig.for_model(name))
    if hasattr(config, "qk_rope_head_dim") and hasattr(config, "head_dim"):
        config.head_dim = config.qk_rope_head_dim
    model = getattr(transformers, KINDS[kind]).from_config(config)
    generator = torch.Generator().manual_seed(1)
    if kind == "IMAGE_CLASSIFICATION":
        size = config.image_size if isinstance(getattr(config, "image_size", None), int) else 64
        given = {"pixel_values": torch.randn(2, 3, size, size, generator=generator), "labels": torch.tensor([1, 2])}
    else:
        tokens = torch.randint(3, 200, (4, 64), generator=generator)
        given = {"input_ids": tokens, "labels": tokens}
    return model, lambda: model(**given).loss
