"""The released program of read_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from step_programs import Step, build_tokenizer, load, open_package, replace_absent, take_step, towers_of, use_float64
from torch import Tensor

NAMES = {  # of ours, and of transformers
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.": "vision_model.embeddings.patch_embedding.",
    "visual.ln_pre.": "vision_model.pre_layrnorm.",
    "visual.ln_post.": "vision_model.post_layernorm.",
    "visual.transformer.resblocks.": "vision_model.encoder.layers.",
    "visual.proj": "visual_projection.weight",
    "transformer.resblocks.": "text_model.encoder.layers.",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "token_embedding.": "text_model.embeddings.token_embedding.",
    "ln_final.": "text_model.final_layer_norm.",
    "text_projection": "text_projection.weight",
}
IN_LAYERS = {"ln_": "layer_norm", "c_fc": "fc1", "c_proj": "fc2", ".attn.": ".self_attn."}
PROJECTIONS = ("visual.proj", "text_projection")  # matrices here, linear layers there
TEXTS = ("input_ids", "paraphrased_input_ids")
WORDS = ("<pad>", "</s>", "<unk>", "cat", "dogs", "man", "birds", "one", "two", ".")


def run(folder: Path, shared_inputs: Step) -> Step:
    """JiH00nKw0n/READ-CLIP: three negatives, a text that asks for the caption, and one that a tiny T5 reads.

    Its loss asks for `model.module`, which a model on one process does not have: here it is the model itself.
    """
    work = Path(shared_inputs["work"])
    write_clip(work / "clip", shared_inputs)
    write_t5(work / "t5")
    modules = open_program(folder)
    batch = make_batch(modules["collator"], work, shared_inputs)
    cfg = modules["configuration"].CLIPWithDecoderConfig(str(work / "clip"), str(work / "t5"))
    modules["model"].CLIPWithDecoderPreTrainedModel.init_weights = lambda self: None  # transformers 5 has another
    model = modules["model"].CLIPWithDecoderModel(cfg)
    torch.save(model.decoder_text_projection.state_dict(), work / "t5/project.pt")
    use_float64(model)
    undo_version_5(model)
    object.__setattr__(model, "module", model)
    trainer = modules["trainer"].ReadCLIPTrainer.__new__(modules["trainer"].ReadCLIPTrainer)
    terms: list[Tensor] = []
    trainer.model, trainer._custom_backward = model, terms.append
    trainer.training_weight, trainer.text_weight = 0.1, 0.5  # config/train_read_clip.yaml
    trainer.negative_weight, trainer.use_negative_in_text_contrastive = 0.0, False
    trainer.update_multi_loss_state = trainer.compute_log_probs_and_update_metrics = lambda *args, **options: None

    def compute() -> dict[str, Tensor]:
        trainer.compute_loss(model, batch | {"pixel_values": batch["pixel_values"].double()})
        return {"total": sum(terms, torch.zeros(()))}

    tokens = [batch[name] * batch[name.replace("input_ids", "attention_mask")] for name in TEXTS]
    step = take_step(model, compute, batch["pixel_values"], torch.cat(tokens))
    return step | {"slopes": read_slopes(step["slopes"], list(shared_inputs["state"]))}


def name_theirs(name: str) -> list[str]:
    """Return the names of transformers for a part of ours: three where queries, keys and values are one."""
    for names in (NAMES, IN_LAYERS):
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
    return [name.replace("in_proj_", f"{piece}_proj.") for piece in "qkv"] if "in_proj_" in name else [name]


def write_clip(folder: Path, shared_inputs: Step) -> None:
    """Write our model as one of transformers."""
    vision, text = shared_inputs["model"]["vision_cfg"], shared_inputs["model"]["text_cfg"]
    sizes = {"vision_config": vision | {"num_attention_heads": vision["width"] // vision["head_width"]}}
    sizes["text_config"] = {"vocab_size": text["vocab_size"], "num_attention_heads": text["heads"]}
    for name, cfg in (("vision_config", vision), ("text_config", text)):
        sizes[name] |= {"hidden_size": cfg["width"], "intermediate_size": 4 * cfg["width"], "hidden_act": "gelu"}
        sizes[name]["num_hidden_layers"] = cfg["layers"]
    cfg = transformers.CLIPConfig(**sizes, projection_dim=shared_inputs["model"]["embed_dim"])
    model, state = transformers.CLIPModel(cfg), {}
    for name, value in towers_of(shared_inputs["state"]).items():
        names = name_theirs(name)
        for piece, chunk in zip(names, value.chunk(len(names)) if len(names) > 1 else [value], strict=True):
            state[piece] = chunk.T if name in PROJECTIONS else chunk
    load(model, state).save_pretrained(folder)


def read_slopes(slopes: dict[str, Tensor], names: list[str]) -> dict[str, Tensor]:
    """Return the slopes of transformers' parameters by our names."""
    ours = {"heads.project.weight": slopes["decoder_text_projection.weight"]}
    for name in names:
        pieces = [slopes[f"clip.{piece}"] for piece in name_theirs(name) if f"clip.{piece}" in slopes]
        if pieces:
            ours[name] = pieces[0].T if name in PROJECTIONS else torch.cat(pieces) if len(pieces) > 1 else pieces[0]
    return ours


def write_t5(folder: Path) -> None:
    """Write a T5 v1.1 of one layer without dropout, and a tokenizer of whole words."""
    import tokenizers

    cfg = transformers.T5Config(  # type: ignore[call-arg]
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_decoder_layers=1, num_heads=2,
        dropout_rate=0.0, decoder_start_token_id=0, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(cfg).save_pretrained(folder)
    numbers = {word: number for number, word in enumerate(WORDS)}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<unk>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    end = {"single": "$A </s>", "special_tokens": [("</s>", 1)]}
    plain.post_processor = tokenizers.processors.TemplateProcessing(**end)
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, **special).save_pretrained(folder)


class NoRegistry:
    """In the place of its registry, which imports all that it has a name for."""

    def __getattr__(self, kind: str) -> Any:
        return lambda name: lambda registered: registered


def open_program(folder: Path) -> dict[str, Any]:
    """Return the modules of the program that a step needs, without what their packages import."""
    replace_absent("iopath", "iopath.common", "iopath.common.download", "iopath.common.file_io", "datasets", "peft")
    setattr(transformers.utils, "is_torch_fx_proxy", lambda tensor: False)  # noqa: B010 (transformers 5 has none)
    for name in ("src", *(f"src.{piece}" for piece in ("common", "utils", "models", "collators", "runners"))):
        open_package(name, folder.joinpath(*name.split(".")))
    import nltk

    nltk.download = lambda name: None
    registered = {"registry": NoRegistry()}
    sys.modules["src.common.registry"] = SimpleNamespace(**registered)  # type: ignore[assignment]
    sys.modules["src.common"].__dict__.update(registered)
    sys.modules["src.utils"].__dict__.update(vars(importlib.import_module("src.utils.utils")))
    names = {
        "configuration": "src.models.configuration_clipwithdecoder",
        "model": "src.models.modeling_clipwithdecoder",
        "collator": "src.collators.collator",
        "trainer": "src.runners.trainer",
    }
    return {piece: importlib.import_module(name) for piece, name in names.items()}


def make_batch(module: Any, work: Path, shared_inputs: Step) -> dict[str, Any]:
    """Return the batch of its collator, whose draws are the first two texts, and the last one to be read."""
    from PIL import Image

    fixed_choice = SimpleNamespace(choice=lambda texts, size, replace: np.array(texts[:2] if size == 2 else texts[-1:]))
    module.NegCLIPNegativeTextMining.__init__ = lambda self: None
    pictures = transformers.CLIPImageProcessorPil()  # as transformers 4, by pillow
    processor = transformers.CLIPProcessor(image_processor=pictures, tokenizer=build_tokenizer())
    collator = module.COCOImageCollatorWithT5Tokenizer(
        processor, tokenizer=str(work / "t5"), num_hard_negs=3, num_labels=1, use_negative_caption=True,
        use_different_label=True, use_text_loss=True, use_synthetic_caption=True, synthetic_type="zero",
    )  # fmt: skip
    negatives = iter([text for texts in shared_inputs["negatives"] for text in texts])
    collator.rng, collator.negative_caption = fixed_choice, lambda text: next(negatives)
    columns = (shared_inputs[key] for key in ("paths", "captions", "further"))
    rows = [
        {"cocoid": path, "images": Image.open(path), "sentences": [caption, *further]}
        for path, caption, further in zip(*columns, strict=True)
    ]
    return dict(collator(rows))


def undo_version_5(model: Any) -> None:
    """Let a model give what transformers 4.48.3 does, which the program asks for; 5 gives projected texts alone."""
    clip, decode = model.clip, model.decoder.forward

    def encode_texts(input_ids: Tensor, attention_mask: Tensor, **_: Any) -> Tensor:
        return clip.text_projection(clip.text_model(input_ids=input_ids, attention_mask=attention_mask).pooler_output)

    def forward(input_ids: Tensor, pixel_values: Tensor, attention_mask: Tensor, **_: Any) -> SimpleNamespace:
        text = clip.text_model(input_ids=input_ids, attention_mask=attention_mask)
        image_BD = clip.visual_projection(clip.vision_model(pixel_values=pixel_values).pooler_output)
        image_BD = image_BD / image_BD.norm(dim=-1, keepdim=True)
        text_AD = clip.text_projection(text.pooler_output)
        text_AD = text_AD / text_AD.norm(dim=-1, keepdim=True)
        logits_BA = clip.logit_scale.exp() * image_BD @ text_AD.T
        return SimpleNamespace(
            logits_per_image=logits_BA, logits_per_text=logits_BA.T, text_embeds=text_AD, image_embeds=image_BD,
            text_model_output=text,
        )  # fmt: skip

    clip.get_text_features, clip.forward = encode_texts, forward
    model.decoder.forward = lambda **inputs: decode(**{n: x for n, x in inputs.items() if x is not None})
