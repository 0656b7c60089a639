"""What a run does not train stays as it is, to the last bit of its buffers, and its modules are in evaluation mode."""

import pytest
import torch

from compclip.base.files import write_json
from compclip.model import backbone
from compclip.model.run_weights import write_checksums
from compclip.runs import key_parts, run_store
from tests import small_training
from tests.tiny_project import TINY, at, cell


def timm(name: str, side: int, **options: str) -> dict:
    """A config with an image tower of timm's."""
    vision = {"timm_model_name": name, "timm_pool": "", "timm_proj": "linear", "image_size": side, **options}
    return TINY | {"vision_cfg": vision}


FAMILIES = {
    "vit": TINY,
    "resnet": TINY | {"vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 8}},
    "fastvit": timm("fastvit_t8", 64, timm_pool="avg"),  # MobileCLIP's
    "convnext": timm("test_convnext", 64, timm_pool="avg"),
    "eva": timm("eva02_tiny_patch14_224", 224, timm_pool="token"),
    "siglip": timm("test_vit", 160, timm_pool="map", timm_proj="none") | {"embed_dim": 64},
}
TRAINED = {
    "text": lambda name: not name.startswith("visual."),
    "image": lambda name: name.startswith("visual."),
    "none": lambda name: False,
}
ADAPTED = ("train.lora={rank: 2, alpha: 2, targets: [patch]}", "train.trainable=image")


def train(here, family: str, *overrides: str):
    """The backbone's tensors, and the model after two steps."""
    write_json(here / f"frozen_{family}.json", FAMILIES[family])
    start = backbone.create(str(here / f"frozen_{family}.json"), seed=3)
    start.save(here / "models" / "tiny")
    write_checksums(here / "models" / "tiny")
    model = small_training.train(here, "finetune", here / "work", small_training.recorder.do_nothing,
                                 "train.max_steps=2", *overrides)  # fmt: skip
    return start.clip.state_dict(), model


@pytest.mark.parametrize("trained", TRAINED)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_of_a_frozen_tower_stays(here, family, trained):
    """Batch norms' statistics among them; what is trained moves."""
    start, model = train(here, family, f"train.trainable={trained}")
    moved = {name for name, tensor in model.clip.state_dict().items() if not torch.equal(tensor, start[name])}
    assert not [name for name in moved - {"logit_scale"} if not TRAINED[trained](name)]
    assert (len(moved) > 5) == (trained != "none")


@pytest.mark.parametrize("family", ["vit", "resnet"])
def test_an_adapter_on_the_backbone_is_the_checkpoint(here, family):
    """Beside its factors nothing moves."""
    start, model = train(here, family, *ADAPTED)
    state = {name.replace(".base_layer", ""): tensor for name, tensor in model.clip.state_dict().items()}
    factors = {name for name in state if ".lora_" in name}
    assert factors and state.keys() - factors == start.keys()
    assert not [name for name, tensor in start.items() if not torch.equal(state[name], tensor)]


def test_an_older_run_of_a_backbone_with_batch_norms_is_stale_for_these(here, monkeypatch):
    """Its key differs in them, and `compclip runs why` says so; that of a ViT stays."""
    keys = {}
    for family in ("vit", "resnet"):
        train(here, family, "train.trainable=text")
        for norms in ({}, run_store.BATCH_NORMS):
            monkeypatch.setattr(run_store, "BATCH_NORMS", norms)
            run = at(cell("finetune"))
            keys[family, bool(norms)] = run.key, key_parts.describe_key(run.run, run.root).columns.get("batch norms")
    assert keys["vit", True] == keys["vit", False]
    assert keys["resnet", True][0] != keys["resnet", False][0]
    assert keys["resnet", False][1] is None and keys["resnet", True][1]
