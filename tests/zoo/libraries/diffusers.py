# SPDX-License-Identifier: Apache-2.0
"""Models of diffusers that their configuration lets be made small, on latents, videos or lines of tokens."""

import inspect

import diffusers
import torch

from libraries.common import MOST_PARAMETERS, by_name, mean_square, parameters_of

WIDTH, TOKENS = 64, 12
# What configurations call how large they are, and what is small enough.
SMALL = {
    "attention_head_dim dim_head": 16,
    "num_attention_heads num_heads num_kv_heads num_key_value_heads num_cross_attention_heads": 4,
    "num_layers num_single_layers num_double_layers depth depths num_refiner_layers layers_per_block num_blocks": 2,
    "cross_attention_dim caption_channels joint_attention_dim text_dim pooled_projection_dim text_embed_dim": WIDTH,
    "caption_projection_dim encoder_hidden_states_channels cross_attention_input_dim caption_channel": WIDTH,
    "text_embed_dim_t5 cap_feat_dim hidden_size inner_dim dim text_embed_2_dim pooled_text_embed_dim": WIDTH,
    "time_embed_dim global_states_input_dim cross_attention_hidden_dim": WIDTH,
    "in_channels out_channels latent_channels in_channel sample_frames": 4,
    "sample_size sample_height sample_width": 16,
    "ffn_dim": 128,
    "freq_dim": 32,
    "norm_num_groups base_dim": 8,
}
# What some models are made with instead.
OPTIONS = {
    "CogVideoXTransformer3DModel": {"max_text_seq_length": TOKENS, "sample_frames": 13, "temporal_compression_ratio": 4},
    "FluxTransformer2DModel": {"axes_dims_rope": (4, 4, 8), "guidance_embeds": True},
    "UNet2DConditionModel": {"num_attention_heads": None, "attention_head_dim": 8},
    "UNet3DConditionModel": {"num_attention_heads": None, "attention_head_dim": 8},
}
SHAPES = [(4, 16, 16), (4, 4, 16, 16), (64, 4), (4, 64)]


def names() -> list[str]:
    found = ((name, getattr(diffusers, name, None)) for name in dir(diffusers))
    models = (name for name, each in found if inspect.isclass(each) and issubclass(each, diffusers.ModelMixin))
    return [name for name in models if name != "ModelMixin"]


def small(name: str) -> torch.nn.Module:
    made = getattr(diffusers, name)
    sizes = by_name(SMALL)
    given = {}
    for key, parameter in inspect.signature(made.__init__).parameters.items():
        old = parameter.default
        if isinstance(old, (tuple, list)):
            if key == "block_out_channels":
                given[key] = (32,) * len(old)
            elif key.startswith("axes_dim"):
                given[key] = (4, 4, 8) if len(old) == 3 else (4,) * len(old)
        elif key in sizes:
            given[key] = sizes[key]
    return made(**given | OPTIONS.get(name, {}))


def inputs(model: torch.nn.Module, shape: tuple, with_options: bool) -> dict:
    """What the model's forward takes, as far as its name says what it is."""
    generator = torch.Generator().manual_seed(1)
    sample = torch.randn(2, *shape, generator=generator)
    known = {
        "sample": sample,
        "hidden_states": sample,
        "x": sample,
        "timestep": torch.tensor([5, 7]),
        "encoder_hidden_states": torch.randn(2, TOKENS, WIDTH, generator=generator),
        "encoder_attention_mask": torch.ones(2, TOKENS, dtype=torch.bool),
    }
    optional = {
        "pooled_projections": torch.randn(2, WIDTH, generator=generator),
        "class_labels": torch.tensor([1, 2]),
        "guidance": torch.ones(2),
        "img_ids": torch.zeros(64, 3),
        "txt_ids": torch.zeros(TOKENS, 3),
        "img_shapes": [[(1, 8, 8)]] * 2,
        "txt_seq_lens": [TOKENS] * 2,
        "num_frames": 4,
        "height": 8,
        "width": 8,
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
    }
    wanted = inspect.signature(model.forward).parameters
    given = {k: v for k, v in known.items() if k in wanted}
    return given | {
        k: v for k, v in optional.items() if k in wanted and (with_options or wanted[k].default is wanted[k].empty)
    }


def make(name: str):
    if parameters_of(lambda: small(name)) > MOST_PARAMETERS:
        raise ValueError("too large")
    model = small(name).eval()
    for shape in SHAPES:
        for with_options in (True, False):
            given = inputs(model, shape, with_options)
            try:
                with torch.no_grad():
                    mean_square(model(**given, return_dict=False))
            except Exception as error:
                failed = error
                continue
            return model, lambda: mean_square(model(**given, return_dict=False))
    raise failed
