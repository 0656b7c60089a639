"""Tiny random vision models that chat, saved as a hub's folders are laid out: LLaVA and Qwen2.5-VL."""

from pathlib import Path

import torch

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
WORDS = (*SPECIAL, "USER:", "ASSISTANT:", "describe", "this", "a", "red", "blue", "dog", "cat", "tree", "on", "under")
TEMPLATE = (
    "{{% for m in messages %}}USER: {{% for c in m['content'] %}}{{% if c['type'] == 'image' %}}{image}"
    "{{% else %}} {{{{ c['text'] }}}}{{% endif %}}{{% endfor %}}{{% endfor %}}"
    "{{% if add_generation_prompt %}} ASSISTANT:{{% endif %}}"
)
TEXT = {
    "vocab_size": len(WORDS), "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.6,
    "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip


def _tokenizer(transformers):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        additional_special_tokens=list(SPECIAL[4:]),
    )  # fmt: skip


def llava(folder: Path, transformers) -> Path:
    """Pictures of one size, four tokens each."""
    torch.manual_seed(0)
    vision = transformers.CLIPVisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=8,
        initializer_range=1.0,
    )  # fmt: skip
    text = transformers.LlamaConfig(**TEXT)
    picture_token = WORDS.index("<|image_pad|>")
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=picture_token)
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}),
        _tokenizer(transformers),
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<|image_pad|>",
        num_additional_image_tokens=1,
        chat_template="<s> " + TEMPLATE.format(image="<|image_pad|>"),
    ).save_pretrained(folder)
    return folder


def qwen(folder: Path, transformers) -> Path:
    """Pictures of any size, more tokens for larger ones."""
    torch.manual_seed(0)
    vision = {
        "depth": 2, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "patch_size": 4, "window_size": 16,
        "fullatt_block_indexes": [1], "out_hidden_size": 16, "initializer_range": 0.6,
    }  # fmt: skip
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}}
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, **{name: 4 + i for i, name in enumerate(names)}
    )
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    model.generation_config.eos_token_id = [3, 1]
    model.save_pretrained(folder)
    size = {"shortest_edge": 64, "longest_edge": 32 * 32}
    transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(patch_size=4, size=size),
        _tokenizer(transformers),
        transformers.Qwen2VLVideoProcessor(patch_size=4, size=size),
        chat_template=TEMPLATE.format(image="<|vision_start|><|image_pad|><|vision_end|>"),
    ).save_pretrained(folder)
    return folder
