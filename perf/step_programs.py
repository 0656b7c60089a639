"""The side of the released programs of `perf/released_steps.py`: `python step_programs.py METHOD FOLDER INPUT OUTPUT`.

A process of its own, since these programs have packages of the same names as each other, and as ours. It makes a batch
with the program's data set and collate function, in which random parts of pictures are the whole picture, and takes one
step of the program's model and loss in float64. What they import and numbers do not need is replaced by nothing.
"""

from __future__ import annotations

import csv
import os
import random
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

Step = dict[str, Any]  # by name: pictures, tokens, terms, total, slopes
ABSENT = (
    "SVLC_learning", "SVLC_learning.negs_and_pos", "horovod", "horovod.torch",
    "local_setting", "clip", "clips",
    "loguru", "braceexpand", "webdataset", "webdataset.filters", "webdataset.tariterators", "wandb",
)  # fmt: skip


class _IdleClass(type):
    """A class whose methods do nothing, whatever they are called."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


class _IdleModule(ModuleType):
    """A module of such classes."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _IdleClass(name, (), {})


def replace_absent(*names: str) -> None:
    """Put modules that do nothing in the place of those."""
    for name in names:
        sys.modules[name] = module = _IdleModule(name)
        module.__spec__ = ModuleSpec(name, None)


def show_whole_pictures() -> None:
    """Let a random part of a picture be all of it."""
    from torchvision import transforms

    def whole(picture: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        return 0, 0, picture.height, picture.width

    transforms.RandomResizedCrop.get_params = staticmethod(whole)


def take_step(model: nn.Module, compute: Callable[[], dict[str, Tensor]], pictures: Tensor, tokens: Tensor) -> Step:
    """Return the batch, the terms of a loss, and the slopes of all parameters."""
    terms = compute()
    total = torch.stack(list(terms.values())).sum()
    total.backward()
    slopes = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    values = {name: value.detach() for name, value in terms.items()}
    return {"pictures": pictures, "tokens": tokens, "terms": values, "total": total.detach(), "slopes": slopes}


def use_float64(model: nn.Module) -> nn.Module:
    """Compute in float64 from here on, where a program says float32 too."""
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
    return model.double().train()


def run_negclip(folder: Path, given: Step) -> Step:
    """vinid/neg_clip: each row brings one near picture, with a caption and a negative of its own."""
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP
    from open_clip.transform import image_transform
    from training.data import CsvDataset

    file = Path(given["work"]) / "negclip.csv"
    lines = ["filepath\ttitle\tneg_caption\tneg_image"]
    for picture, caption, negatives, near in zip(
        *(given[key] for key in ("paths", "captions", "negatives", "near")), strict=True
    ):
        lines.append(f"{picture}\t{caption}\t{negatives[:1]!r}\t[{near}]")
    file.write_text("\n".join(lines))
    transform = image_transform(given["model"]["vision_cfg"]["image_size"], is_train=True)
    data = CsvDataset(str(file), transform, "filepath", "title", "neg_caption")
    rows = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    images, new_images, texts, new_texts, hard_captions, new_hard = rows
    images = torch.cat([images, new_images])
    texts = torch.cat([texts, new_texts, hard_captions, new_hard])  # training/train.py:81-85
    model = use_float64(load(CLIP(**given["model"]), given["state"]))
    return take_step(model, lambda: {"negclip": ClipLoss()(*model(images.double(), texts))}, images, texts)


def run_fsc_clip(folder: Path, given: Step) -> Step:
    """ytaek-oh/fsc-clip: three kinds of negatives behind the captions, a global and a local term of their own."""
    negatives = list(zip(*given["negatives"], strict=True))  # by kind
    replaced = ModuleType("training.text_negatives")
    texts_there = [text for kind in negatives for text in kind if text is not None]
    masks = [int(text is not None) for kind in negatives for text in kind]
    replaced.add_random_text_hard_negatives = lambda texts, **_: (texts_there, masks)  # type: ignore[attr-defined]
    sys.modules["training.text_negatives"] = replaced
    from open_clip.model import CLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import image_transform
    from training.data import CocoDataset
    from training.losses.loss import Local_HNLoss

    file = Path(given["work"]) / "fsc_clip.csv"
    lines = ["filepath\ttitle\tneg_caption"]
    lines += [f"{picture}\t{caption}\t[]" for picture, caption in zip(given["paths"], given["captions"], strict=True)]
    file.write_text("\n".join(lines))
    transform = image_transform(given["model"]["vision_cfg"]["image_size"], is_train=True)
    data = CocoDataset(
        str(file), transform, "filepath", "title", text_hard_negatives="fsc-clip", is_train=True, image_root=""
    )
    collate = CocoDataset.collate_fn("fsc-clip", tokenize)
    batch = collate([data[i] for i in range(len(data))])
    model = CLIP(**given["model"], output_dict=True, return_dense_tokens=True)
    model = use_float64(load(model, given["state"]))
    loss = Local_HNLoss(
        local_batch_size=len(data), apply_global_neg_loss=True, neg_loss_weight=0.5, neg_loss_name="focal_loss",
        focal_gamma=2.0, neg_label_smoothing=0.02, local_neg_weight=0.2,
    )  # fmt: skip

    def compute() -> dict[str, Tensor]:
        out = model(batch["images"].double(), batch["texts"], is_training=True)
        return loss(**out, neg_text_masks=batch["neg_masks"], output_dict=True)

    return take_step(model, compute, batch["images"], batch["texts"])


def run_clic(folder: Path, given: Step) -> Step:
    """AmitPeleg/CLIC: a step on composites, four captions and a negative of each; also all texts."""
    import spacy

    spacy.load = lambda name: None  # type: ignore[assignment, misc]  # it tags words for negatives, which are given
    import data_loading
    import losses
    import models
    import open_clip

    texts: list[str] = []

    def tokenize(text: str) -> Tensor:
        texts.append(text)
        return open_clip.tokenize(text).squeeze()

    data_loading.get_hard_negative = lambda a, b: data_loading.get_p1_p2(f"no {a}", b)[0]
    file = Path(given["work"]) / "clic.csv"
    with open(file, "w", newline="") as lines:
        rows = zip(given["paths"], given["captions"], given["further"], strict=True)
        csv.writer(lines).writerows([path, caption, *further] for path, caption, further in rows)
    flags = {"hard_negatives": True, "shuffled_positive": True, "additional_positives": 2}  # trigger_train.sh
    model = open_clip.CLIP(**given["model"])
    transform = open_clip.image_transform(given["model"]["vision_cfg"]["image_size"], is_train=False)
    data = data_loading.CombineCsvDataset(file, transform, tokenizer=tokenize, clip_loss_iterate=True, **flags)
    inputs = torch.utils.data.default_collate([data[i] for i in range(len(data))])[:-2]
    pictures, tokens = inputs[0], torch.cat(inputs[1:])  # train.py:219-227
    wrapper = models.CLIP.__new__(models.CLIP)
    nn.Module.__init__(wrapper)
    wrapper.model, wrapper.args = load(model, given["state"]), SimpleNamespace(distributed=False)
    use_float64(wrapper)
    losses.general_utils = SimpleNamespace(get_rank=lambda: 0)
    weights = {"cont": 0.5, "sneg": 0.5, "uni": 1.0, "hard_negatives_separate": True, "uni_modal_loss": True}
    criterion = losses.CLIPLoss(SimpleNamespace(**flags, **weights))
    step = take_step(model, lambda: {"total": criterion(wrapper(pictures.double(), tokens))["combined_loss"]},
                     pictures, tokens)  # fmt: skip
    return step | {"texts": texts}


def run_svlc(folder: Path, given: Step) -> Step:
    """SivanDoveh/TSVLC: a negative of each caption by rules, in the contrast and in a term of its own."""
    import training.data as data_module
    from open_clip import tokenize
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP
    from open_clip.transform import image_transform

    negative_of = {texts[0]: texts[1][:1] for texts in zip(given["captions"], given["negatives"], strict=True)}
    maker = SimpleNamespace(create_negs=lambda caption: tokenize(list(negative_of[caption])))
    data_module.choose_negs_function = lambda args: maker
    flags = {"vl_negs": True, "vl_pos": False, "save_data": False, "num_negs": 1, "neg_w": 1, "device": "cpu"}
    more = dict.fromkeys(("no_neg_in_contrastive", "symmetric", "kl_pos", "common_batch_pos"), False)
    args = SimpleNamespace(**flags, **more)
    file = Path(given["work"]) / "svlc.csv"
    lines = [f"{picture}\t{caption}" for picture, caption in zip(given["paths"], given["captions"], strict=True)]
    file.write_text("\n".join(["filepath\ttitle", *lines]))
    transform = image_transform(given["model"]["vision_cfg"]["image_size"], is_train=True)
    data = data_module.CsvDataset(str(file), transform, "filepath", "title", args=args)
    images, texts, extra = torch.utils.data.default_collate([data[i] for i in range(len(data))])
    negatives = extra["negatives"].view(-1, texts.shape[-1])
    tokens = torch.cat([texts, negatives])  # training/train.py:66-76: all are there
    model = use_float64(load(CLIP(**given["model"]), given["state"]))

    def compute() -> dict[str, Tensor]:
        return {"total": ClipLoss(args=args)(*model(images.double(), tokens), list(range(len(texts))))[0]}

    return take_step(model, compute, images, tokens)


PROGRAMS: dict[str, Callable[[Path, Step], Step]] = {
    "negclip": run_negclip,
    "fsc_clip": run_fsc_clip,
    "clic": run_clic,
    "svlc": run_svlc,
}


def load(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """Fill a program's model with our weights, every one of them."""
    own = model.state_dict()
    differ = set(own) ^ set(state)
    if differ:
        raise SystemExit(f"weights of other names: {sorted(differ)[:6]}")
    model.load_state_dict({name: value.to(own[name]) for name, value in state.items()})
    return model


def main(method: str, folder: str, given: str, output: str) -> None:
    """Run one step and write it."""
    sys.path[:1] = [str(Path(folder) / "src"), folder]
    if (Path(folder) / "src").is_dir():
        os.chdir(Path(folder) / "src")  # from where TSVLC reads its vocabulary
    replace_absent(*ABSENT)
    show_whole_pictures()
    random.seed(0)
    torch.manual_seed(0)
    torch.save(PROGRAMS[method](Path(folder), torch.load(given, weights_only=False)), output)


if __name__ == "__main__":
    main(*sys.argv[1:])
