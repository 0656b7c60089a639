"""An open_clip model with all that feeds it, and the folder in open_clip's format that holds it.

This is what training reads: it trusts the folder, which the `backbone` stage wrote. Checkpoints from elsewhere come in
through `backbone`, which checks them.

B images or texts, L text positions.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import open_clip
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from compclip.base.errors import UserError, report_failure
from compclip.base.files import read_mapping, write_atomic, write_json
from compclip.model import hub_cache, tokenizers

if TYPE_CHECKING:
    from PIL.Image import Image


CONFIG = "open_clip_config.json"
WEIGHTS = "open_clip_model.safetensors"
GELU = "gelu"
QUICK = "quickgelu"
OPEN_BY = "open it by compclip.model.backbone.load"
DECODER = "multimodal_cfg"  # the section of a config that makes a model CoCa, which writes captions


class ClipModule(nn.Module):
    """What open_clip's CLIP, CustomTextCLIP and CoCa have that is used here, for a type checker; never instantiated."""

    visual: Any
    text: Any  # a tower of its own, in CustomTextCLIP and CoCa
    text_decoder: Any  # in CoCa
    transformer: Any  # and what follows: of CLIP's own text tower
    token_embedding: nn.Embedding
    positional_embedding: nn.Parameter
    ln_final: nn.Module
    text_projection: nn.Parameter | nn.Linear | None
    attn_mask: Tensor | None
    context_length: int
    text_pool_type: str
    text_eos_id: int
    logit_scale: nn.Parameter
    logit_bias: nn.Parameter | None
    encode_image: Callable[..., Tensor]
    encode_text: Callable[..., Tensor]
    # What is set here: positions of a text's tokens, a bias that this run added, and the adapter that peft adds.
    layout: tokenizers.TokenLayout
    bias_added: bool
    peft_config: dict[str, Any]


@dataclass(frozen=True)
class ClipModel:
    """An open_clip model with tokenizer and image transform, and the config that makes it again in plain open_clip.

    `head`: what decides beside the towers how a picture and a text are compared, a `model.heads.Head`.
    `resized`: of which grid of patches its positions were, where its file is of pictures of another size.
    """

    clip: ClipModule
    tokenizer: Any
    transform: Any
    model_cfg: dict
    preprocess_cfg: dict
    source: str
    head: Any = None
    resized: str = ""

    @property
    def image_size(self) -> int:
        """Pixels of the square input's side."""
        return side_lengths(self.clip.visual.image_size)[0]

    @property
    def starts(self) -> int:
        """Number of tokens before a text's own: 1 for CLIP, 0 for SigLIP."""
        return self.tokenizer.layout.starts

    def fit_picture(self, picture: Image) -> Image:
        """Crop and scale a picture as `transform` does; one that has the right size and mode is returned as it is."""
        height, width = side_lengths(self.preprocess_cfg["size"])
        if picture.mode == "RGB" and picture.size == (width, height):
            return picture
        for step in self.transform.transforms[:-2]:
            picture = step(picture)
        return picture

    def stack_pictures(self, pictures: Sequence[Image]) -> Tensor:
        """Return the pictures, cropped and scaled, as uint8 [B, 3, H, W] whose channels lie last in memory."""
        values_BHW3 = np.stack([np.asarray(self.fit_picture(picture)) for picture in pictures])
        return torch.from_numpy(values_BHW3).permute(0, 3, 1, 2)

    def statistics(self, override: Mapping[str, Sequence[float]] | None = None) -> Tensor:
        """Return mean and deviation of the channels, float32 [2, 3]: the model's own, or `override`."""
        values = override or self.preprocess_cfg
        return torch.tensor([values["mean"], values["std"]], dtype=torch.float32)

    def pixels(self, pictures: Sequence[Image], statistics: Mapping[str, Sequence[float]] | None = None) -> Tensor:
        """Return the pictures as one tensor [B, 3, H, W], bit by bit what `transform` gives.

        `statistics`: another `mean` and `std` than the model's own.
        """
        return normalise_pictures(self.stack_pictures(pictures), self.statistics(statistics))

    def tokenize(self, texts: list[str]) -> Tensor:
        """Return token ids [B, context_length]; longer texts are cut and keep their end token."""
        return self.tokenizer(texts)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text without start and end."""
        return self.tokenizer.count(text)

    def save(self, folder: str | Path) -> None:
        """Write weights, config and tokenizer so that plain open_clip loads them (`local-dir:<folder>`), and a head."""
        folder = Path(folder)
        activation = activation_name(self.model_cfg)  # in the header, for a file that leaves its folder
        write_tensors(folder / WEIGHTS, self.clip.state_dict(), {"activation": activation})
        self.tokenizer.save(folder)
        record = {"tokenizer": self.tokenizer.record} if self.tokenizer.record else {}
        if options := list_own_options(self.model_cfg):
            record["note"] = (
                f"{', '.join(options)}: plain open_clip does not know this and refuses the folder; {OPEN_BY}"
            )
        write_json(folder / CONFIG, {"model_cfg": self.model_cfg, "preprocess_cfg": self.preprocess_cfg, **record})
        if self.head is not None:
            self.head.save(folder)

    def add_bias(self, value: float) -> None:
        """Give a softmax model the learnt bias of a sigmoid loss; a model that has one keeps it."""
        if self.clip.logit_bias is None:
            device = self.clip.logit_scale.device
            self.clip.logit_bias = nn.Parameter(torch.full((), float(value), device=device))
            self.model_cfg["init_logit_bias"] = float(value)
            self.clip.bias_added = True  # by this run: no part of a backbone that an adapter freezes


def list_own_options(model_cfg: Mapping[str, Any]) -> list[str]:
    """Return the options of a config that are not open_clip's, as `text_cfg.rotary`: it refuses such a folder."""
    kinds = {"vision_cfg": open_clip.CLIPVisionCfg, "text_cfg": open_clip.CLIPTextCfg}
    return [
        f"{section}.{key}"
        for section, kind in kinds.items()
        for key in model_cfg[section]
        if key not in kind.__dataclass_fields__
    ]


def write_tensors(path: Path, state: Mapping[str, Tensor], header: dict[str, str] | None = None) -> None:
    """Write tensors by name as a file of safetensors, with a header of texts."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    write_atomic(path, save(tensors, header))


def normalise_pictures(picture_B3HW: Tensor, statistics_23: Tensor) -> Tensor:
    """Return pictures of uint8 as a model takes them, float32: on a CPU bit by bit as open_clip's transform."""
    mean_311, std_311 = statistics_23[:, :, None, None]
    value_B3HW = picture_B3HW.to(torch.float32, memory_format=torch.contiguous_format)
    return value_B3HW.div_(255).sub_(mean_311).div_(std_311)


def load_folder(folder: Path, device: str = "cpu") -> ClipModel:
    """Load a folder that `ClipModel.save` wrote. Raises UserError for a damaged one."""
    config = read_mapping(folder / CONFIG)
    kinds = (SafetensorError, OSError, RuntimeError, KeyError)
    with report_failure(f"{folder}: damaged", "run `dvc repro backbone` again", *kinds):
        clip = build_module(config["model_cfg"])
        clip.load_state_dict(load_file(folder / WEIGHTS))
        tokenizer = tokenizers.load_tokenizer(config["model_cfg"]["text_cfg"], folder, config.get("tokenizer", ""))
    return assemble(clip.to(device), config["model_cfg"], str(folder), config["preprocess_cfg"], tokenizer)


def build_module(model_cfg: Mapping[str, Any]) -> ClipModule:
    """Build the module of a config with random weights; towers of other libraries are not filled from a hub."""
    cfg: dict[str, Any] = dict(model_cfg)
    custom_text = cfg.pop("custom_text", False)
    for tower, library in (("vision_cfg", "timm_model"), ("text_cfg", "hf_model")):
        if cfg[tower].get(f"{library}_name"):
            cfg[tower] = cfg[tower] | {f"{library}_pretrained": False}
    hf_tower = cfg["text_cfg"].get("hf_model_name")
    kind = open_clip.CustomTextCLIP if custom_text or hf_tower else open_clip.CLIP
    kind = open_clip.CoCa if DECODER in cfg else kind
    with hub_cache.reachable_or_offline() if hf_tower else contextlib.nullcontext():  # transformers asks for its config
        return kind(**cfg)


def assemble(clip: ClipModule, model_cfg: dict, source: str, preprocess: dict, tokenizer: Any) -> ClipModel:
    """Join a module with its tokenizer and image transform. Raises UserError where the image sizes differ."""
    declared = side_lengths(clip.visual.image_size)
    size = preprocess.get("size")
    if size and side_lengths(size) != declared:
        raise UserError(f"{source}: preprocess_cfg.size={size}: the model takes {declared}; remove it")
    cfg = open_clip.transform.merge_preprocess_dict(
        open_clip.transform.PreprocessCfg(size=clip.visual.image_size), preprocess
    )
    clip.visual.preprocess_cfg = cfg
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**cfg), is_train=False)
    clip.layout = tokenizer.layout
    return ClipModel(clip, tokenizer, transform, dict(model_cfg), json.loads(json.dumps(cfg)), source)


def side_lengths(size: Any) -> tuple[int, int]:
    """Return height and width of a size that is one number or two."""
    return (size[0], size[1]) if isinstance(size, (list, tuple)) else (size, size)


def cut_context(model: ClipModel, length: int) -> ClipModel:
    """Keep the first `length` positions of the text tower, in place (CLoVe trains and ships 64 of 77).

    Texts that fit get the same embedding up to rounding; longer ones are cut earlier. Raises UserError for more
    positions than the model has, and for a text tower that is not CLIP's own.
    """
    clip = model.clip
    fault = ""
    if model.model_cfg["text_cfg"].get("hf_tokenizer_name") or not hasattr(clip, "positional_embedding"):
        fault = "only for CLIP's own text tower; remove it"
    elif not 3 <= length <= clip.context_length:
        fault = f"must be from 3 to {clip.context_length}, the backbone's"
    if fault:
        raise UserError(f"train.context_length={length}: {fault}")
    if length == clip.context_length:
        return model
    clip.positional_embedding = nn.Parameter(clip.positional_embedding.detach()[:length].clone())
    clip.context_length = length
    if clip.attn_mask is not None:
        clip.attn_mask = clip.attn_mask[:length, :length]
    cfg = copy.deepcopy(model.model_cfg)
    cfg["text_cfg"]["context_length"] = length
    return replace(model, tokenizer=tokenizers.ClipTokenizer(length), model_cfg=cfg)


def interpolate(pretrained: Mapping[str, Tensor], tuned: Mapping[str, Tensor], alpha: float) -> dict[str, Tensor]:
    """Return theta(alpha) = (1 - alpha) theta_pretrained + alpha theta_tuned (WiSE-FT: Wortsman et al., 2022).

    Exactly the ends at 0 and 1, and exactly the same where nothing moved. Integer buffers and an added bias are the
    tuned model's. Raises UserError for another architecture.
    """
    comparable = dict(tuned)
    if "logit_bias" not in pretrained:
        comparable.pop("logit_bias", None)
    difference = describe_difference(comparable, pretrained)
    if difference:
        raise UserError(
            f"wise_ft: two architectures: {difference}; give the checkpoint that the tuned one was trained from"
        )
    interpolated = dict(tuned)
    for name, weight in tuned.items():
        if name in pretrained and weight.is_floating_point():
            interpolated[name] = torch.lerp(pretrained[name], weight, alpha)
    return interpolated


def describe_difference(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str:
    """Return how many tensors differ by name or shape, and how the first of them does; "" where none does."""
    names = sorted(expected.keys() ^ state.keys())
    names = names or sorted(name for name in expected if expected[name].shape != state[name].shape)
    if not names:
        return ""
    name = names[0]
    if name in expected and name in state:
        detail = f"{list(state[name].shape)} and not {list(expected[name].shape)}"
    else:
        detail = f"which {'the model' if name in state else 'the file'} lacks"
    return f"{len(names)} tensors differ, as {name[:120]!r}, {detail}"


def activation_name(model_cfg: Mapping[str, Any]) -> str:
    """Return the activation that a config asks for."""
    return QUICK if model_cfg.get("quick_gelu", False) else GELU


# --- models that see whole pictures ---------------------------------------------------------------------------------
# Models that see whole pictures, scaled to their square, in the place of what a square cut out of the middle shows.


def squash_pictures(model: ClipModel) -> None:
    """Let a model scale whole pictures to its square wherever it is scored, in place, as `Views.squash` trains it."""
    model.preprocess_cfg["resize_mode"] = "squash"
    if model.transform is not None:  # a model that is built to measure its steps prepares no picture
        preprocess = open_clip.transform.PreprocessCfg(**model.preprocess_cfg)
        model.transform.transforms = open_clip.transform.image_transform_v2(preprocess, is_train=False).transforms
