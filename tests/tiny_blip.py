"""Tiny random vision models that do not chat, saved as a hub's folders are laid out: BLIP and InstructBLIP."""

from pathlib import Path

import torch

WORDS = (
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "a", "picture", "of", "dog", "cat", "red", "blue", "tree",
    "on", "under", "the", "grass", "house", "boat", "runs", "sleeps", "with", "hat",
)  # fmt: skip
WIDTH = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "initializer_range": 1.0,
}  # fmt: skip


def blip(folder: Path, transformers) -> Path:
    """Config, random weights, tokenizer and image processor."""
    width = WIDTH | {"projection_dim": 8}
    text = width | {
        "encoder_hidden_size": 16, "vocab_size": len(WORDS), "max_position_embeddings": 40, "pad_token_id": 0,
        "sep_token_id": 3, "eos_token_id": 3, "bos_token_id": 5,
    }  # fmt: skip
    torch.manual_seed(0)
    config = transformers.BlipConfig(text_config=text, vision_config=width | {"image_size": 32, "patch_size": 8})
    transformers.BlipForConditionalGeneration(config).save_pretrained(folder)
    tokenizer = transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}, bos_token="[DEC]")
    pictures = transformers.BlipImageProcessor(size={"height": 32, "width": 32})
    transformers.BlipProcessor(pictures, tokenizer).save_pretrained(folder)
    return folder


ASKED = ("<pad>", "</s>", "<unk>", "<image>", "is", "there", "a", "red", "blue", "dog", "cat", "yes", "no", "tree")


def instructblip(folder: Path, transformers) -> Path:
    """Two query tokens, and a T5 with an encoder and a decoder behind them."""
    text = {
        "model_type": "t5", "vocab_size": len(ASKED), "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2,
        "num_heads": 2, "initializer_factor": 3.0, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
    }  # fmt: skip
    config = transformers.InstructBlipConfig(
        vision_config=WIDTH | {"image_size": 32, "patch_size": 8},
        qformer_config=WIDTH | {"vocab_size": len(WORDS), "encoder_hidden_size": 16, "max_position_embeddings": 40},
        text_config=text,
        num_query_tokens=2,
        image_token_index=ASKED.index("<image>"),
    )
    torch.manual_seed(0)
    model = transformers.InstructBlipForConditionalGeneration(config)
    torch.nn.init.normal_(model.query_tokens)
    model.save_pretrained(folder)
    transformers.InstructBlipProcessor(
        transformers.BlipImageProcessor(size={"height": 32, "width": 32}),
        _t5_tokenizer(transformers),
        transformers.BertTokenizer(vocab={word: i for i, word in enumerate(WORDS)}),
        num_query_tokens=2,
    ).save_pretrained(folder)
    return folder


def _t5_tokenizer(transformers):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(ASKED)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<image>"],
    )  # fmt: skip
