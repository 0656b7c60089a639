"""What a run does not train stays as it is, to the last bit of its buffers, and its modules are in evaluation mode."""

from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.nn import functional

from compclip.base.files import write_json
from compclip.interface.method import load_method
from compclip.model import backbone, clip_model
from compclip.model.run_weights import write_checksums
from compclip.runs import key_parts, tower_versions
from compclip.train import optimiser, simulated_step
from perf.truth import towers
from tests import fake_store, small_training
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


def test_an_older_run_of_a_backbone_with_batch_norms_is_stale_for_these(here, monkeypatch, capsys):
    """Its key differs in them, and `compclip runs why` says so and nothing else; that of a ViT stays."""
    keys = {}
    for family in ("vit", "resnet"):
        train(here, family, "train.trainable=text")
        keys[family] = at(cell("finetune")).key
        with monkeypatch.context() as older:
            older.setattr(tower_versions, "list_versions", lambda *_: {})
            run = at(cell("finetune"))
            key_parts.write_parts(fake_store.finish(run).folder, key_parts.describe_key(run.run, run.root))
        assert (run.key == keys[family]) == (family == "vit")
    assert key_parts.main([cell("finetune")]) == 0
    differences = [line for line in capsys.readouterr().out.splitlines() if "->" in line]
    assert differences == ["  towers     batch norms: not there -> those of frozen parts stay"]


def encode(clip) -> list[list]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        text_BL = torch.randint(3, towers.WORDS - 2, (16, 8))
        text_BL[:, -1] = towers.WORDS - 1
        if not hasattr(getattr(clip, "text", None), "pooler"):  # open_clip's own have so many positions
            text_BL = functional.pad(text_BL, (0, clip.context_length - 8))
        return [clip.encode_image(torch.randn(16, 3, 64, 64)).tolist(), clip.encode_text(text_BL).tolist()]


def list_decayed_before(clip, which: str) -> frozenset[str]:
    """`optimiser.list_decayed`, where norms were two classes of torch's."""
    kinds = [module for module in clip.modules() if isinstance(module, nn.LayerNorm | nn.BatchNorm2d)]
    norms = {parameter for module in kinds for parameter in module.parameters(recurse=False)}
    parameters = list(clip.named_parameters())
    if which != "all_but_norms":
        return optimiser.list_decayed(clip, which, parameters)
    return frozenset(n for n, p in parameters if "bias" not in n and (p not in norms or p.ndim >= 2))


@pytest.mark.parametrize("family", [name for name in towers.FAMILIES if name != "CoCa"])
def test_a_key_says_what_changed_of_its_towers_and_nothing_else(family, tmp_path, monkeypatch):
    """The rules of before, which are here: all is in training mode, a tower's layers by digits, norms by two classes.

    Runs of backbones with batch norms have other keys whatever they train.
    """
    towers.lay_models(tmp_path)
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    method, options = load_method("finetune"), towers.OPTIONS
    for name in ("trainable: text", "trainable: image", "text_layers: 1", "decayed: all_but_norms"):
        run = towers.make_run("finetune", **options[name])
        clip = simulated_step.build_model(run, method, towers.FAMILIES[family], "cpu").clip
        for gamma in (p for place, p in clip.named_parameters() if place.endswith(".gamma")):
            nn.init.ones_(gamma)  # of relpos: 1e-5, by which no vector's last bit moves
        clip_model.write_tensors(tmp_path / "backbone" / clip_model.WEIGHTS, clip.state_dict())
        write_json(tmp_path / "backbone" / clip_model.CONFIG, {"model_cfg": towers.FAMILIES[family]})
        versions = tower_versions.list_versions(tmp_path / "backbone", asdict(run.train))
        optimiser.freeze(clip, run.train)
        changed = {"batch norms"} & set(versions)
        before = encode(clip.train())
        optimiser.set_modes(clip)
        if before != encode(clip):
            changed.add("text_layers" if run.train.text_layers else "batch norms" if changed else "dropout")
        parameters = list(clip.named_parameters())
        if optimiser.list_decayed(clip, run.train.decayed, parameters) != list_decayed_before(clip, run.train.decayed):
            changed.add("decayed")
        assert set(versions) == changed, name
