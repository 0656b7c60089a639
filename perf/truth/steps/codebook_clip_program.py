"""The released program of codebook_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from step_programs import Step, load, open_package, rename, replace_absent, take_step, use_float64
from torch import Tensor, nn

NAMES = {
    "space_dict": "heads.code",
    "img_query_model.q_map.": "heads.image_query.",
    "txt_query_model.q_map.": "heads.text_query.",
    "encode_text.": "",
}
MASK = 49406  # a word of its own, before the start and the end token
LONGER = 9  # a caption so many times over has no padding in 77 positions


def run(folder: Path, shared_inputs: Step) -> Step:
    """hellomuffin/iterated-learning-for-vlm: sums of codes of pictures and whole texts, in one process; also all texts.

    The start token is left out of its query's view, and texts have no padding: its padding answers with 0, ours does
    not. Colours, blur and turns of its transform are left out too.
    """
    replace_absent("easydict")
    for name in ("prototype.model", "prototype.data"):
        open_package(name, folder / name.replace(".", "/"))
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{shared_inputs['work']}/group", rank=0, world_size=1
    )
    from prototype.data.imagenet_dataloader import build_common_augmentation
    from prototype.loss_functions.loss import ClipInfoCELoss
    from prototype.model.clip_fdt import Clip_FDT
    from prototype.model.image_encoder.visual_transformer import visual_transformer_B32
    from prototype.model.text_encoder.text_transformer import text_transformers

    vision, text = shared_inputs["model"]["vision_cfg"], shared_inputs["model"]["text_cfg"]
    image_encode = visual_transformer_B32(
        width=vision["width"],
        layers=vision["layers"],
        heads=vision["width"] // vision["head_width"],
        patch_size=vision["patch_size"],
        embed_dim=shared_inputs["model"]["embed_dim"],
    )
    text_encode = text_transformers(
        transformer_width=text["width"],
        transformer_layers=text["layers"],
        transformer_heads=text["heads"],
        embed_dim=shared_inputs["model"]["embed_dim"],
        bpe_path=str(folder / "prototype/model/text_encoder/bpe_simple_vocab_16e6.txt.gz"),
        text_encode_type="Transformer",
        text_model_utils={"random": False, "freeze": False},
    )
    codes, code_width = shared_inputs["state"]["heads.code"].shape
    model = Clip_FDT(image_encode, text_encode, True, codes, code_width, vision["width"], text["width"],
                     "sparsemax", "max", 0.5)  # fmt: skip
    use_float64(load_ours(model, shared_inputs["state"]))
    model.img_query_model.q_map[0].eps = 0.0
    texts = [" ".join([caption] * LONGER) for caption in shared_inputs["captions"]]
    transform = build_common_augmentation("MOCOV2_single")
    transform.transforms = [step for step in transform.transforms if "Random" not in str(step) or "Crop" in str(step)]
    torch.set_default_dtype(torch.float32)
    pictures = torch.stack([transform(Image.open(path).convert("RGB")) for path in shared_inputs["paths"]])
    torch.set_default_dtype(torch.float64)
    leave_out_start(text_encode)
    norm = torch.Tensor.norm
    # its lengths have 1e-10 added behind
    torch.Tensor.norm = lambda *args, **kwargs: norm(*args, **kwargs) - 1e-10  # type: ignore[method-assign]

    def compute() -> dict[str, Tensor]:
        logits = model(pictures.double(), texts)[0]
        return {"clip": ClipInfoCELoss()(*logits)[0]}

    tokens = text_encode.tokenize(texts)[0]
    step = take_step(model, compute, pictures, tokens - (tokens > MASK).long())
    slopes = rename(step["slopes"], NAMES)
    slopes["logit_scale"] = slopes["logit_scale"][0]
    words_VW = slopes["token_embedding.weight"]
    slopes["token_embedding.weight"] = torch.cat([words_VW[:MASK], words_VW[MASK + 1 :]])
    return step | {"texts": texts, "slopes": slopes}


def load_ours(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """Fill its model; what the loss does not see stays as drawn."""
    of_heads = {ours: theirs for theirs, ours in NAMES.items() if ours}
    ours = rename(state, of_heads | {"visual.": "visual.", "logit_scale": "logit_scale", "": "encode_text."})
    words_VW = ours["encode_text.token_embedding.weight"]
    ours["encode_text.token_embedding.weight"] = torch.cat([words_VW[:MASK], words_VW[:1], words_VW[MASK:]])
    ours["logit_scale"] = ours["logit_scale"][None]
    del ours["encode_text.heads.temperature"], ours["encode_text.text_projection"]
    unseen = {"logit_scale_sd", "encode_text.text_projection.weight", "encode_text.text_projection.bias"}
    return load(model, {name: value for name, value in model.state_dict().items() if name in unseen} | ours)


def leave_out_start(text_encode: Any) -> None:
    """Let the text tower give words and their mask without the start token."""
    encode = text_encode.forward

    def forward(*args: Any, **kwargs: Any) -> list[Tensor]:
        vector_BD, word_BLW, raw_BW, padding_BL = encode(*args, **kwargs)
        return [vector_BD, word_BLW[:, 1:], raw_BW, padding_BL[:, 1:]]

    text_encode.forward = forward
