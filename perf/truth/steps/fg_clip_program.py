"""The released program of fg_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from step_programs import Step, load, replace_absent, take_step, use_float64
from torch import Tensor, nn
from torch.nn import functional as F

BOXES = ((0.1, 0.2, 0.65, 0.9), (0.0, 0.0, 0.3, 0.35), (0.5, 0.1, 1.0, 0.4), (0.25, 0.55, 0.8, 0.75))
FALSE_TEXTS, LAST = 10, 49407  # false texts of a region; the end token, which pads too
NAMES = {
    "visual.transformer.resblocks.": "vision_model.encoder.layers.",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.": "vision_model.embeddings.patch_embedding.",
    "visual.ln_pre.": "vision_model.pre_layrnorm.",
    "visual.ln_post.": "vision_model.post_layernorm.",
    "visual.proj": "visual_projection.weight",
    "transformer.resblocks.": "text_model.encoder.layers.",
    "token_embedding.": "text_model.embeddings.token_embedding.",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.": "text_model.final_layer_norm.",
    "text_projection": "text_projection.weight",
    "heads.long.": "text_filip_projection.",
    "heads.log_scale_regions": "logit_scale_finegraind",
    "heads.log_scale_hard": "logit_scale_hardneg",
}
PARTS = {".attn.": ".self_attn.", ".ln_1.": ".layer_norm1.", ".ln_2.": ".layer_norm2.", ".c_fc.": ".fc1.",
         ".c_proj.": ".fc2."}  # fmt: skip


def run(folder: Path, shared_inputs: Step) -> Step:
    """360CVGroup/FG-CLIP, branch v1.0: a step of its second stage, in one process; also all texts.

    Captions have at most twenty words: up to there its positions of long texts are those of short ones. Its tokenizer's
    files are CLIP's, so open_clip's takes its place. What it casts to bfloat16 stays as it is.
    """
    replace_absent("einops", "transformers.onnx", "fgclip.train.clean_clip_trainer")
    import open_clip
    from fgclip.train.train_fgclip import DataCollatorForSupervisedDataset, LazySupervisedBboxDataset
    from transformers import CLIPImageProcessorPil

    texts: list[str] = []

    def tokenize(captions: list[str], max_length: int, **_: Any) -> SimpleNamespace:
        texts.extend(captions)
        token_AL = open_clip.tokenize(captions, context_length=max_length)
        return SimpleNamespace(input_ids=token_AL.masked_fill(token_AL == 0, LAST).tolist())

    file = Path(shared_inputs["work"]) / "fg_clip.json"
    file.write_text(json.dumps([describe(shared_inputs, i) for i in range(len(shared_inputs["paths"]))]))
    arguments = SimpleNamespace(image_folder="", max_seq_length=248, base_seq_length=77, base_image_size=224,
                                add_box_loss=True, use_hard_neg=True)  # fmt: skip
    data = LazySupervisedBboxDataset(str(file), arguments, CLIPImageProcessorPil(), tokenize)
    batch = DataCollatorForSupervisedDataset()([data[i] for i in range(len(data))])
    model = use_float64(load_ours(create(shared_inputs["model"]), shared_inputs["state"]))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{shared_inputs['work']}/group", rank=0, world_size=1
    )
    kinds = {name: getattr(torch, name) for name in ("float", "float32", "bfloat16")}

    def compute() -> dict[str, Tensor]:
        for name in kinds:
            setattr(torch, name, torch.float64)
        total = model(**batch | {"image": batch["image"].double()}, return_dict=True).loss
        for name, kind in kinds.items():
            setattr(torch, name, kind)
        return {"total": total}

    tokens = [batch["text_long"][:, :77], batch["text_short"], batch["box_texts"], batch["hard_texts"]]
    step = take_step(model, compute, batch["image"], cut_padding(torch.cat(tokens)))
    return step | {"texts": texts, "slopes": name_slopes(step["slopes"], shared_inputs["state"])}


def describe(shared_inputs: Step, i: int) -> Step:
    """Return a record of its data: a picture's captions and regions, with false texts."""
    regions = []
    for r, box in enumerate(BOXES):
        false_texts = {str(k): f"{shared_inputs['negatives'][i][k % 3].split()[1]} {r} {k}" for k in range(FALSE_TEXTS)}
        expressions = {
            "short_expr": f"{shared_inputs['further'][i][1]} {r}",
            "long_expr": f"{shared_inputs['further'][i][0]} at {r}",
        }
        regions.append({"bbox": box, "flag_short_neg": 1, "short_expr_negs": false_texts} | expressions)
    captions = {"caption": shared_inputs["captions"][i], "short_caption": shared_inputs["further"][i][0]}
    return {"f_path": shared_inputs["paths"][i], "bbox_info": regions} | captions


def create(config: Step) -> nn.Module:
    """Return its model of our sizes."""
    from fgclip.model.clip_strc.configuration_clip import CLIPConfig
    from fgclip.model.clip_strc.fgclip import FGCLIPModel

    CLIPConfig.use_return_dict = True  # of older releases of transformers
    vision, text = config["vision_cfg"], config["text_cfg"]
    shared = {"hidden_act": "gelu", "projection_dim": config["embed_dim"]}

    def sizes(piece: Step, heads: int) -> Step:
        width = {"hidden_size": piece["width"], "intermediate_size": 4 * piece["width"]}
        return shared | width | {"num_hidden_layers": piece["layers"], "num_attention_heads": heads}

    pictures = {"image_size": vision["image_size"], "patch_size": vision["patch_size"]}
    words = {"vocab_size": text["vocab_size"], "max_position_embeddings": text["context_length"]}
    return FGCLIPModel(CLIPConfig(
        text_config=sizes(text, text["heads"]) | words,
        vision_config=sizes(vision, vision["width"] // vision["head_width"]) | pictures,
        projection_dim=config["embed_dim"],
    ))  # fmt: skip


def find_names(name: str) -> list[str]:
    """Return its names of a weight of ours: three for the maps into attention."""
    beginning = next((old for old in NAMES if name.startswith(old)), "")
    name = NAMES.get(beginning, "") + name.removeprefix(beginning)
    for old, new in PARTS.items():
        name = name.replace(old, new)
    return [name.replace("in_proj_", f"{piece}_proj.") for piece in "qkv"] if "in_proj_" in name else [name]


def is_turned(name: str) -> bool:
    """Return whether a weight of ours is a matrix of tokens by numbers, and its one a layer."""
    return name in ("visual.proj", "text_projection")


def load_ours(model: Any, state: dict[str, Tensor]) -> nn.Module:
    """Fill its model; positions of long texts are made of those of short ones, as it does."""
    weights: dict[str, Tensor] = {}
    for name, value in state.items():
        names, value = find_names(name), value.T if is_turned(name) else value
        weights |= dict(zip(names, value.chunk(3) if len(names) > 1 else [value], strict=True))
    longer = {name: value for name, value in model.state_dict().items() if "position_embedding_" in name}
    load(model, weights | longer)
    model.resize_postion_embeding()
    return model


def name_slopes(slopes: dict[str, Tensor], state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return slopes by our names; those of the first positions of long texts are added to the short ones'."""
    embeddings = "text_model.embeddings.position_embedding"
    long_LW = slopes[f"{embeddings}_ori.weight"]
    slopes[f"{embeddings}.weight"] = slopes[f"{embeddings}.weight"] + F.pad(long_LW[:20], (0, 0, 0, 57))
    ours = {}
    for name in state:
        pieces = [slopes[piece] for piece in find_names(name) if piece in slopes]
        if pieces:
            ours[name] = torch.cat(pieces) if len(pieces) > 1 else pieces[0].T if is_turned(name) else pieces[0]
    return ours


def cut_padding(token_AL: Tensor) -> Tensor:
    """Return tokens with zeros behind the first end token."""
    is_last = token_AL == LAST
    return token_AL.masked_fill(is_last.cumsum(dim=1) - is_last.long() > 0, 0)
