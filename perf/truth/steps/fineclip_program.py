"""The released program of fineclip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from PIL import Image
from step_programs import Step, load, open_package, replace_absent, take_step, use_float64
from torch import Tensor, nn

BOXES = ((0.1, 0.25, 0.45, 0.6), (0.3, 0.05, 0.55, 0.9))
TOWER = {"layers": 2, "width": 32, "head_width": 16, "patch_size": 56, "mlp_ratio": 2.6667, "drop_path_rate": 0.0,
         "eva_model_name": "tiny", "rope": True, "pt_hw_seq_len": 16, "intp_freq": True, "naiveswiglu": True,
         "subln": True}  # fmt: skip
NAMES = {"mlp.norm": "mlp.ffn_ln", "attn.norm": "attn.inner_attn_ln", "fc1_g": "w1", "fc1_x": "w2", "mlp.fc2": "mlp.w3",
         "q_proj.bias": "q_bias", "v_proj.bias": "v_bias", "visual.trunk.": "visual."}  # fmt: skip


def run(folder: Path, shared_inputs: Step) -> Step:
    """Timsty1/FineCLIP: pictures, two regions of each with a caption, and their crops; also all texts.

    Attention is torch's in the place of xformers'. It freezes the text tower. Annotations are shown as COCO's reader
    would.
    """
    open_package("open_clip", folder / "open_clip")
    for name in ("tokenizer", "transform"):
        vars(sys.modules["open_clip"])[name] = __import__(f"open_clip.{name}", fromlist=[name])
    stand_in_einops()
    replace_absent("pycocotools", "pycocotools.coco", "pycocotools.cocoeval", "panopticapi", "petrel_client",
                   "petrel_client.client", "six", "six.moves")  # fmt: skip
    open_package("open_clip.eva_clip", folder / "open_clip/eva_clip")
    import training.data as data_module
    from open_clip.eva_clip.loss import ClipLoss
    from open_clip.eva_clip.model import CustomCLIP
    from open_clip.tokenizer import tokenize
    from open_clip.transform import det_image_transform
    from training.clipself import CLIPSelf

    texts: list[str] = []

    def read(text: str) -> Tensor:
        texts.append(text)
        return tokenize(text)

    side = shared_inputs["model"]["vision_cfg"]["image_size"]
    arguments = write_data(shared_inputs)
    data_module.COCO = lambda _: annotate(shared_inputs)
    transform = det_image_transform(side, is_train=False)
    data = data_module.ProposalDistillDataset("", [transform] * 2, "", side, read, arguments)
    batch = list(torch.utils.data.default_collate([data[i] for i in range(len(data))]))
    pictures, crops = batch[0], batch[2].flatten(0, 1)
    tokens = torch.cat([batch[3].squeeze(1), batch[4].flatten(0, 1)])
    config = {name: shared_inputs["model"][name] for name in ("embed_dim", "text_cfg")}
    model = use_float64(
        load_ours(CustomCLIP(vision_cfg=TOWER | {"image_size": side}, **config), shared_inputs["state"])
    )
    batch[:3] = [tensor.double() for tensor in batch[:3]]
    find_shares(texts, shared_inputs, batch[1])

    def compute() -> dict[str, Tensor]:
        terms, *_ = CLIPSelf()(batch, model, None, ClipLoss(), "cpu", None, False, arguments)
        return {"clip": terms["global_itc"], "regions": terms["region_itc"], "distill": terms["distill"]}

    step = take_step(model, compute, torch.cat([pictures, crops]), tokens)
    ours = {find_name(name): name for name in shared_inputs["state"]}
    return step | {"texts": texts, "slopes": {ours[name]: slope for name, slope in step["slopes"].items()}}


def write_data(shared_inputs: Step) -> SimpleNamespace:
    """Write captions of pictures and regions, and return the arguments of its script."""
    work = Path(shared_inputs["work"])
    pictures = [{"id": i, "file_name": path} for i, path in enumerate(shared_inputs["paths"])]
    captions = [{"image_id": i, "caption": caption} for i, caption in enumerate(shared_inputs["captions"])]
    (work / "captions.json").write_text(json.dumps({"images": pictures, "annotations": captions}))
    text_of_region = {}
    for i, path in enumerate(shared_inputs["paths"]):
        for box, text in zip(find_boxes(path), shared_inputs["further"][i], strict=True):
            text_of_region["{}_{}_{}_{}_{}.jpg".format(path, *box)] = text
    (work / "regions.json").write_text(json.dumps(text_of_region))
    return SimpleNamespace(
        max_boxes=len(BOXES), min_size=1, max_size=1024, train_ceph_root="", multiscale=False, extract_type="v2",
        loss_type="distill,global_itc,region_itc", batch_size=len(pictures),
        image_caption_path=str(work / "captions.json"), image_region_caption_path=str(work / "regions.json"),
    )  # fmt: skip


def find_boxes(path: str) -> list[list[int]]:
    """Return left, upper, width and height of a picture's regions in pixels."""
    with Image.open(path) as picture:
        return [[round(share * size) for share, size in zip(box, picture.size * 2, strict=True)] for box in BOXES]


def find_shares(texts: list[str], shared_inputs: Step, box_BR5: Tensor) -> None:
    """Write boxes as ours are rounded: theirs go through a scale, and differ by a number's last digit of float32."""
    for i, path in enumerate(shared_inputs["paths"]):
        width, height = Image.open(path).size
        for r, text in enumerate(texts[i * 3 + 1 : i * 3 + 3]):
            left_edge, upper, across, down = find_boxes(path)[shared_inputs["further"][i].index(text)]
            edges = [left_edge / width, upper / height, (left_edge + across) / width, (upper + down) / height]
            box_4 = torch.tensor(edges, dtype=torch.float32).double()
            assert torch.allclose(box_BR5[i, r, :4], box_4, atol=1e-6)
            box_BR5[i, r, :4] = box_4


def annotate(shared_inputs: Step) -> SimpleNamespace:
    """Return pictures and boxes as COCO's reader does."""
    pictures = {i: {"file_name": path} for i, path in enumerate(shared_inputs["paths"])}
    boxes = {i: [{"bbox": box} for box in find_boxes(path)] for i, path in enumerate(shared_inputs["paths"])}
    return SimpleNamespace(imgs=pictures, imgToAnns=boxes)


def stand_in_einops() -> None:
    """Put the three patterns of its rotary positions in einops' place."""
    module: Any = ModuleType("einops")
    module.repeat = lambda x, pattern, r: x.repeat_interleave(r, dim=-1)  # ... n -> ... (n r)
    module.rearrange = lambda x, pattern, **sizes: x.unflatten(-1, (-1, 2)) if sizes else x.flatten(-2)
    sys.modules["einops"] = module


def find_name(name: str) -> str:
    """Return its name of a weight of ours."""
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs) if name.startswith("visual.") else name
    return name


def load_ours(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    """Fill its model; angles of positions are its own."""
    angles = {name: value for name, value in model.state_dict().items() if ".rope." in name}
    return load(model, {find_name(name): value for name, value in state.items()} | angles)
