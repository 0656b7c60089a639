"""Others' checkpoints, in the layouts that they are released in: the source model's own embeddings, or one line."""

import argparse
import copy
import math
import os
import pickle
import resource
import zipfile
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.base.files import read_json, write_json
from compclip.model import backbone, pickle_bounds, weight_files
from compclip.model.clip_model import ClipModel
from tests.model.test_backbone import SIGLIP
from tests.model.test_towers import TEXTS, TINY

QUICK = TINY | {"quick_gelu": True}


def load(path: Path | str, model: str, **options) -> ClipModel:
    """A file that does not say itself that it has QuickGELU."""
    return backbone.load(path, model, activation="quickgelu", **options)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """A config file; what is made of it has QuickGELU."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.json"
    write_json(path, QUICK)
    return str(path)


@pytest.fixture
def source(tiny):
    """A model of random weights, as somebody else trained it."""
    return backbone.create(tiny, seed=11)


def embedded(clip: nn.Module, texts: torch.Tensor, side: int = 32) -> list[torch.Tensor]:
    """What a model makes of two pictures and of texts."""
    pictures = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return [clip.encode_image(pictures), clip.encode_text(texts)]


def same(one: nn.Module, other: nn.Module, texts: torch.Tensor, atol: float = 0.0, side: int = 32) -> None:
    """Assert equal embeddings, and the same scale."""
    expected = embedded(other.eval(), texts, side)
    torch.testing.assert_close(embedded(one.eval(), texts, side), expected, rtol=0, atol=atol)
    assert one.logit_scale.exp().item() == pytest.approx(other.logit_scale.exp().item(), rel=1e-6 + atol)


def prefixed(state: dict, prefix: str) -> dict:
    """The same tensors as a wrapper names them."""
    return {f"{prefix}{name}": tensor for name, tensor in state.items()}


FSDP = "_fsdp_wrapped_module."
LOSS = {"loss.logit_scale": torch.ones(()), "loss.queue": torch.ones(3)}
LAYOUTS = {
    "raw": lambda s: s,
    "open_clip, DDP": lambda s: {"epoch": 5, "name": "x", "state_dict": prefixed(s, "module."), "scaler": {}},
    "Lightning": lambda s: {"state_dict": prefixed(s, "model."), "hparams": {"lr": 1e-5}, "callbacks": {}},
    "DDP in Lightning": lambda s: {"state_dict": prefixed(s, "model.module.")},
    "compiled": lambda s: {"model_state_dict": prefixed(s, "module._orig_mod.")},
    "CoN-CLIP": lambda s: {"model": s, "optimizer": {"state": {}}, "args": argparse.Namespace(lr=1e-6, arch="x")},
    "TripletCLIP": lambda s: {"model_state_dict": s, "optimizer_state_dict": {}, "epoch": 3},
    "GNM-CLIP": lambda s: {"model_state_dict": {k: v.half() for k, v in s.items()}, "loss": np.float64(0.5)},
    "parameters": lambda s: {"model": {k: nn.Parameter(v) for k, v in s.items()}, "loss": np.array([1.0])},
    "a wrapper's own word": lambda s: {"state_dict": prefixed(s, "net.clip_model.")},
    "DeepSpeed": lambda s: {"module": prefixed(s, "clip."), "optimizer": {"state": {0: torch.ones(2)}}, "epoch": 1},
    "FSDP, its parts too": lambda s: {FSDP + k.replace(".resblocks.", f".{FSDP}resblocks."): v for k, v in s.items()},
    "Lightning, with its loss": lambda s: {"state_dict": prefixed(s, "model.") | LOSS},
    "its average beside it": lambda s: {"state_dict_ema": prefixed({k: v + 1 for k, v in s.items()}, "module."),
                                        "state_dict": prefixed(s, "module.")},
    "its average alone": lambda s: {"ema": {"module": s, "updates": 7}},
    "AveragedModel": lambda s: {"n_averaged": torch.tensor(3)} | prefixed(s, "module."),
    "buffers": lambda s: s | {"attn_mask": torch.zeros(77, 77), "text.position_ids": torch.arange(77)},
    "sizes": lambda s: s | {"input_resolution": torch.tensor(32), "vocab_size": torch.tensor(49408)},
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files(tiny, source, tmp_path, layout):
    """Each layout gives the source model to the bit, or in half precision to its rounding; nothing in it is run."""
    torch.save(LAYOUTS[layout](source.clip.state_dict()), tmp_path / "theirs.pt")
    loaded = load(tmp_path / "theirs.pt", tiny)
    same(loaded.clip, source.clip, source.tokenize(TEXTS), atol=2e-2 if layout == "GNM-CLIP" else 0.0)


def test_the_average_of_a_file_can_be_chosen(tiny, source, tmp_path):
    """By a word of its key; a word that fits none or several, and two models of which neither is an average, ask."""
    state = source.clip.state_dict()
    path = tmp_path / "theirs.pt"
    torch.save(LAYOUTS["its average beside it"](state), path)
    chosen = load(path, tiny, choice="ema").clip.state_dict()
    assert all(torch.equal(chosen[name], value + 1) for name, value in state.items())
    for word in ("teacher", "module"):
        with pytest.raises(UserError, match=f"--weights {word}: fits . of its models, below 'state_dict_ema.module.'"):
            load(path, tiny, choice=word)
    torch.save(prefixed(state, "student.") | prefixed(state, "teacher."), path)
    with pytest.raises(UserError, match=r"holds several models, below 'student.', 'teacher.'; give --weights"):
        load(path, tiny)


def test_a_file_s_kind_is_that_of_its_content(tiny, source, tmp_path):
    """safetensors named .bin, torch's named .safetensors, and a pointer in the place of either."""
    state = source.clip.state_dict()
    save_file(state, tmp_path / "theirs.bin", {"activation": "quickgelu"})
    same(backbone.load(tmp_path / "theirs.bin", tiny).clip, source.clip, source.tokenize(TEXTS))
    torch.save(state, tmp_path / "theirs.safetensors")
    loaded = load(tmp_path / "theirs.safetensors", tiny)
    same(loaded.clip, source.clip, source.tokenize(TEXTS))
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 605143884\n"
    (tmp_path / "theirs.safetensors").write_text(pointer)
    with pytest.raises(UserError, match=r"theirs.safetensors: is a Git LFS pointer.*git lfs pull"):
        load(tmp_path / "theirs.safetensors", tiny)


class Evil:
    """What would run a command when it is read."""

    def __reduce__(self):
        return (os.mkdir, ("ran",))


@pytest.mark.parametrize("zipped", [True, False])
def test_code_beside_weights_is_not_run(tiny, source, tmp_path, monkeypatch, zipped):
    """In torch's own archives it is passed over; in the old format, which has no parts, one line says what to do."""
    monkeypatch.chdir(tmp_path)
    checkpoint = {"model": source.clip.state_dict(), "args": Evil()}
    torch.save(checkpoint, "theirs.pt", _use_new_zipfile_serialization=zipped)
    if zipped:
        same(load("theirs.pt", tiny).clip, source.clip, source.tokenize(TEXTS))
    else:
        with pytest.raises(UserError, match=r"objects of its authors' code.* save its state_dict alone"):
            load("theirs.pt", tiny)
    assert not Path("ran").exists()
    with pytest.raises(pickle.UnpicklingError):  # what the file is for torch itself
        torch.load("theirs.pt", weights_only=True)


def test_a_shorter_context_is_the_models(tiny, source, tmp_path):
    """CLoVe has 64 positions in a model of 77: texts are cut there."""
    state = source.clip.state_dict()
    torch.save(state | {"positional_embedding": state["positional_embedding"][:64]}, tmp_path / "clove.pt")
    loaded = load(tmp_path / "clove.pt", tiny)
    assert loaded.tokenize(["word " * 200]).shape == (1, 64)
    assert loaded.model_cfg["text_cfg"]["context_length"] == 64
    loaded.save(tmp_path / "saved")
    same(backbone.load(tmp_path / "saved").clip, loaded.clip, loaded.tokenize(TEXTS))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_numpy(tiny, source, tmp_path, monkeypatch, save):
    """An .npz by its content; one with objects is a pickle, which is not run; zeros pack well: four times the file at most."""
    monkeypatch.chdir(tmp_path)
    state = {name: tensor.numpy() for name, tensor in source.clip.state_dict().items()}
    with Path("theirs.bin").open("wb") as file:
        save(file, **state)
    same(load("theirs.bin", tiny).clip, source.clip, source.tokenize(TEXTS))
    save("theirs.npz", **state, extra=np.array([Evil()], dtype=object))
    with pytest.raises(UserError, match="theirs.npz: not a readable weights file"):
        load("theirs.npz", tiny)
    assert not Path("ran").exists()
    np.savez_compressed("bomb.npz", weight=np.zeros(1 << 20, np.float32))
    with pytest.raises(UserError, match="its parts together are larger than the file"):
        weight_files.read_weights(Path("bomb.npz"))


@pytest.mark.parametrize("program", [
    b"\x80\x02}r\xff\xff\xff\x3f.", b"(dp999999999\n.", b"\x80\x02}q\x00(" + b"}" * (1 << 18) + b"t.",
], ids=["binary", "text", "objects"])  # fmt: skip
def test_a_small_pickle_takes_no_memory(tmp_path, monkeypatch, program):
    """Python's reader makes a table up to the largest index of a memo, before anything is known of the content."""
    monkeypatch.setattr(pickle_bounds, "MAX_INSTRUCTIONS", 1 << 18)
    (tmp_path / "x.pt").write_bytes(program)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match="x.pt: not a readable weights file.*(memo of|instructions)"):
        weight_files.read_weights(tmp_path / "x.pt")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


TWICE = b"\x80\x02}" + b"K\x01" + b"2\x86" * 60 + b"K\x01s."  # a key of tuples, each of the last one twice
BY_MEMO = b"\x80\x02}K\x01" + b"".join(b"q%c0h%ch%c\x86" % (n, n, n) for n in range(60)) + b"K\x01s."


def write_older(path, program):
    """Torch's format before 1.6: a number, a version, the machine, the objects, the names of storages."""
    start = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    path.write_bytes(b"".join([*start, program, pickle.dumps([], 2)]))


def write_archive(path, program):
    """Torch's format of today."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", program)
        file.writestr("x/byteorder", "little")
        file.writestr("x/version", "3\n")


@pytest.mark.parametrize("write", [Path.write_bytes, write_older, write_archive])
@pytest.mark.parametrize("program", [TWICE, BY_MEMO], ids=["copies", "memo"])
def test_a_small_pickle_takes_no_time(tmp_path, program, write):
    """Python hashes a key by all that is within it, each as often as it is there: 2**60 numbers."""
    write(tmp_path / "x.pt", program)
    with pytest.raises(UserError, match="x.pt: not a readable weights file.*within each other"):
        weight_files.read_weights(tmp_path / "x.pt")


@pytest.mark.parametrize("scale", [1e4, 100.0, -50.0])
def test_a_scale_that_overflows_or_a_name_twice_is_said(tiny, source, tmp_path, scale):
    """Else the loss is nan, and the learning rate is blamed; which of two names is meant is not known."""
    state = source.clip.state_dict()
    torch.save(state | {"logit_scale": torch.tensor(scale)}, tmp_path / "x.pt")
    with pytest.raises(UserError, match=f"x.pt: 'logit_scale': is {scale:g}, .*write its logarithm"):
        load(tmp_path / "x.pt", tiny)
    torch.save(state | prefixed(state, "_orig_mod."), tmp_path / "x.pt")
    with pytest.raises(UserError, match="has a name twice"):
        load(tmp_path / "x.pt", tiny)


@pytest.mark.parametrize("convert", [lambda tensor: tensor.numpy(), lambda tensor: tensor, torch.nn.Parameter])
def test_a_plain_pickle(tiny, source, tmp_path, monkeypatch, convert):
    """Tensors or arrays as `pickle.dump` writes them; a function among them is not run."""
    file = tmp_path / "theirs.pkl"
    monkeypatch.chdir(tmp_path)
    state = {name: convert(tensor) for name, tensor in source.clip.state_dict().items()}
    file.write_bytes(pickle.dumps({"model": state, "step": np.float64(3)}))
    same(load(file, tiny).clip, source.clip, source.tokenize(TEXTS))
    file.write_bytes(pickle.dumps({"model": state, "more": Evil()}))
    with pytest.raises(UserError, match="its authors' code, which is not run here"):
        load(file, tiny)
    assert not Path("ran").exists()


def test_pictures_of_another_size(source, tmp_path, capsys):
    """Positions are resized as open_clip does, said in a note and in the model; what is no square stays refused."""
    state = source.clip.state_dict()
    torch.save(state, tmp_path / "theirs.pt")
    config = QUICK | {"vision_cfg": QUICK["vision_cfg"] | {"image_size": 64}}
    write_json(tmp_path / "large.json", config)
    loaded = load(tmp_path / "theirs.pt", str(tmp_path / "large.json"))
    expected = open_clip.CLIP(**config)
    resized = dict(state)
    open_clip.model.resize_pos_embed(resized, expected)
    expected.load_state_dict(resized)
    same(loaded.clip, expected, source.tokenize(TEXTS), side=64)
    assert loaded.resized == "2 x 2 to 4 x 4"
    assert "positions resized, 2 x 2 to 4 x 4" in capsys.readouterr().err
    torch.save(state | {"visual.positional_embedding": torch.zeros(4, 32)}, tmp_path / "theirs.pt")
    with pytest.raises(UserError, match=r"another architecture: .*'visual.positional_embedding', \[4, 32\] and not"):
        load(tmp_path / "theirs.pt", str(tmp_path / "large.json"))


def adapted(state: dict, rank: int) -> tuple[dict, dict]:
    """A checkpoint with loralib's factors beside its weights, and what it computes with, by hand (alpha 1)."""
    torch.manual_seed(4)
    files, merged = dict(state), dict(state)
    layers = ("attn.in_proj_weight", "out_proj.weight", "c_fc.weight", "c_proj.weight", "conv1.weight")
    for name, w in state.items():
        side = w.shape[-1] if w.ndim == 4 else 1
        if not name.endswith(layers):
            continue
        a, b = torch.randn(rank * side, w.shape[1] * side) * 0.1, torch.randn(w.shape[0] * side, rank * side) * 0.1
        stem = f"{name}_lora_" if name.endswith("in_proj_weight") else f"{name.removesuffix('weight')}lora_"
        files |= {f"{stem}A": a, f"{stem}B": b}
        merged[name] = (w.double() + (b.double() @ a.double()).reshape(w.shape) / rank).float()
    return files, merged


@pytest.mark.parametrize("rank", [2, 4])
def test_adapters_beside_their_weights(tiny, source, tmp_path, rank):
    """FSC-CLIP's, SVLC's and DAC's LoRA files: rank from the shapes, alpha 1, or as it is stated."""
    files, merged = adapted(source.clip.state_dict(), rank)
    assert len(files) - len(merged) == 2 * (4 * 4 + 1)
    torch.save({"epoch": 5, "state_dict": prefixed(files, "module.")}, tmp_path / "lora.pt")
    expected = copy.deepcopy(source.clip)
    expected.load_state_dict(merged)
    loaded = load(tmp_path / "lora.pt", tiny)
    same(loaded.clip, expected, source.tokenize(TEXTS), atol=1e-4)
    doubled = weight_files.read_weights(tmp_path / "lora.pt", 2.0)["visual.conv1.weight"]
    plain = source.clip.visual.conv1.weight
    torch.testing.assert_close(doubled - plain, 2 * (merged["visual.conv1.weight"] - plain), rtol=1e-4, atol=1e-5)


def test_adapters_of_peft_beside_their_weights(tiny, source, tmp_path, capsys):
    """PEFT's state_dict against its merge, which adds the update of attention's output twice (0.21); alpha is said."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=2, lora_alpha=6, target_modules=r".*(attn|c_fc|conv1)", init_lora_weights=False)
    wrapped = peft.get_peft_model(copy.deepcopy(source.clip), config)
    torch.save({"state_dict": prefixed(wrapped.state_dict(), "net.")}, tmp_path / "lora.pt")
    loaded = load(tmp_path / "lora.pt", tiny, alpha=6.0)
    expected = wrapped.merge_and_unload().state_dict()
    for name, weight in source.clip.state_dict().items():
        if name.endswith("attn.out_proj.weight"):
            expected[name] = (expected[name] + weight) / 2
    torch.testing.assert_close(loaded.clip.state_dict(), expected, rtol=0, atol=1e-5)
    assert "adapters merged with alpha 6" in capsys.readouterr().err
    assert not torch.equal(loaded.clip.visual.conv1.weight, source.clip.visual.conv1.weight)


@pytest.mark.parametrize(
    "change,message",
    [({"a.weight": (4, 6), "a.lora_A.x.weight": (2, 6), "a.lora_A.y.weight": (2, 6)}, "has several adapters of"),
     ({"a.weight": (4, 6), "a.lora_A": (2, 6)}, r"'a.lora_A': a factor of an adapter without its other"),
     ({"a.lora_A": (2, 6), "a.lora_B": (4, 2)}, r"'a.lora_A': adapts 'a.weight', which the file lacks"),
     ({"a.weight": (4, 6), "a.lora_A": (2, 6), "a.lora_B": (5, 2)}, r"factors \[2, 6\] and \[5, 2\] are none of"),
     ({"a.weight": (4, 6), "a.lora_A": (0, 6), "a.lora_B": (4, 0)}, r"are none of a weight \[4, 6\]"),
     ({"a.weight": (4, 3, 2, 2), "a.lora_A": (3, 6), "a.lora_B": (8, 3)}, r"are none of a weight \[4, 3, 2, 2\]")],
)  # fmt: skip
def test_factors_that_fit_nothing(tmp_path, change, message):
    """Each with its name and shapes."""
    torch.save({name: torch.ones(shape) for name, shape in change.items()}, tmp_path / "lora.pt")
    with pytest.raises(UserError, match=message):
        weight_files.read_weights(tmp_path / "lora.pt")


BLOCKS = {"hidden_size": 32, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT = BLOCKS | {"vocab_size": 49408, "max_position_embeddings": 77, "projection_dim": 16}
VISION = BLOCKS | {"image_size": 32, "patch_size": 16, "projection_dim": 16}


@pytest.fixture
def clip_model():
    """A tiny CLIPModel of random weights; transformers is only installed for tests and some captioners."""
    theirs = pytest.importorskip("transformers")
    torch.manual_seed(6)
    model = theirs.CLIPModel(theirs.CLIPConfig(text_config=TEXT, vision_config=VISION, projection_dim=16)).eval()
    with torch.no_grad():
        model.logit_scale.fill_(3.0)
        for parameter in model.parameters():  # their biases start at zero, and a swap of two would not be seen
            parameter += 0.05 * torch.randn_like(parameter) if parameter.ndim == 1 else 0
    return model


def compare(model, hub_model, texts: torch.Tensor, side: int, atol: float) -> None:
    """Assert that a CLIPModel or SiglipModel and what was read of it agree on unit vectors."""
    pictures = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        out = hub_model(input_ids=texts, pixel_values=pictures)
    theirs = [F.normalize(vectors, dim=-1) for vectors in (out.image_embeds, out.text_embeds)]
    ours = [F.normalize(vectors, dim=-1) for vectors in embedded(model.clip, texts, side)]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def test_a_clip_model_of_transformers(tiny, clip_model, tmp_path):
    """READ-CLIP's layout: the folder's own activation decides, and every tensor has its place."""
    clip_model.save_pretrained(tmp_path / "theirs")
    loaded = backbone.load(tmp_path / "theirs", tiny)
    compare(loaded, clip_model, loaded.tokenize(TEXTS), 32, 1e-5)
    assert loaded.clip.logit_scale.item() == pytest.approx(3.0)
    write_json(tmp_path / "gelu.json", TINY)
    with pytest.raises(UserError, match=r"theirs: trained with quickgelu \(says config.json\)"):
        backbone.load(tmp_path / "theirs", str(tmp_path / "gelu.json"))
    with pytest.raises(UserError, match="give the architecture with --model NAME"):
        backbone.load(tmp_path / "theirs")


def test_weights_in_several_files(tiny, clip_model, tmp_path):
    """As transformers writes large models; a part that is missing is named, and one elsewhere is not read."""
    folder = tmp_path / "theirs"
    clip_model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    loaded = backbone.load(folder, tiny)
    compare(loaded, clip_model, loaded.tokenize(TEXTS), 32, 1e-5)
    index = folder / "model.safetensors.index.json"
    content = read_json(index)
    part = sorted(set(content["weight_map"].values()))[0]
    (folder / part).rename(tmp_path / part)
    with pytest.raises(UserError, match=f"{part}: no such weights file"):
        backbone.load(folder, tiny)
    for elsewhere in (f"../{part}", str(tmp_path / part)):
        write_json(index, content | {"weight_map": {"logit_scale": elsewhere}})
        with pytest.raises(UserError, match="index.json: weight_map: must name files of its folder"):
            backbone.load(folder, tiny)


def test_a_folder_of_open_clip_in_several_files(source, tmp_path):
    """The index is in the place of the file, and wrappers' names are in every part."""
    folder = tmp_path / "theirs"
    source.save(folder)
    file = weight_files.find_weights(folder)
    state = prefixed(load_file(file), "module.")
    file.unlink()
    places = {name: f"part-{number % 3}.bin" for number, name in enumerate(state)}
    for part in set(places.values()):
        torch.save({name: tensor for name, tensor in state.items() if places[name] == part}, folder / part)
    write_json(folder / f"{file.name}.index.json", {"metadata": {}, "weight_map": places})
    same(backbone.load(folder).clip, source.clip, source.tokenize(TEXTS))


def test_fg_clip(tiny, clip_model, tmp_path):
    """A CLIPModel with more: what is for long texts is left out, and pictures are squashed."""
    clip_model.save_pretrained(tmp_path / "theirs")
    file, positions = tmp_path / "theirs" / "model.safetensors", "text_model.embeddings.position_embedding"
    more = {"text_filip_projection.weight": torch.randn(16, 32), "logit_scale_finegraind": torch.ones(()),
            "logit_scale_hardneg": torch.ones(()), f"{positions}_res.weight": torch.randn(248, 32),
            f"{positions}_ori.weight": torch.randn(248, 32)}  # fmt: skip
    save_file(load_file(file) | more, file)
    loaded = backbone.load(tmp_path / "theirs", tiny)
    compare(loaded, clip_model, loaded.tokenize(TEXTS), 32, 1e-5)
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 90, 3), np.uint8))
    assert loaded.fit_picture(wide).tobytes() == wide.resize((32, 32), Image.Resampling.BICUBIC).tobytes()


def test_two_towers_in_two_folders(tiny, clip_model, tmp_path):
    """TripletCLIP's layout: `model.` before every name, no logit scale."""
    state = clip_model.state_dict()
    for folder, key, prefix in (("text-encoder", "text_config", "text"), ("vision-encoder", "vision_config", "vis")):
        (tmp_path / "pair" / folder).mkdir(parents=True)
        tower_state = {f"model.{k}": v.contiguous() for k, v in state.items() if k.startswith(prefix)}
        save_file(tower_state, tmp_path / "pair" / folder / "model.safetensors")
        write_json(tmp_path / "pair" / folder / "config.json", clip_model.config.to_dict()[key])
    loaded = backbone.load(tmp_path / "pair", tiny)
    compare(loaded, clip_model, loaded.tokenize(TEXTS), 32, 1e-5)
    assert loaded.clip.logit_scale.item() == pytest.approx(math.log(100))
    assert weight_files.find_layout(tmp_path / "pair") == "towers"


@pytest.fixture
def small_timm(monkeypatch):
    """timm's names stand for whole models; this one is small, without a class token as SigLIP is."""
    timm = pytest.importorskip("timm")
    sizes = {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2, "mlp_ratio": 4, "class_token": False}
    sizes |= {"dynamic_img_size": False}
    create_model = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, **kwargs: create_model(name, **kwargs | sizes))


SIGLIP_TEXT = TEXT | {"vocab_size": 1000, "max_position_embeddings": 16, "projection_size": 32}


@pytest.mark.parametrize("activation,atol", [("gelu", 1e-5), ("gelu_pytorch_tanh", 1e-2)])
def test_a_siglip_model_of_transformers(small_timm, tmp_path, activation, atol):
    """With timm's image tower and its attention pool; a GELU by tanh is close to open_clip's."""
    theirs = pytest.importorskip("transformers")
    torch.manual_seed(7)
    text, vision = (c | {"hidden_act": activation} for c in (SIGLIP_TEXT, VISION))
    hub_model = theirs.SiglipModel(theirs.SiglipConfig(text_config=text, vision_config=vision)).eval()
    with torch.no_grad():
        hub_model.logit_scale.fill_(2.0)
        hub_model.logit_bias.fill_(-9.0)
        for parameter in hub_model.parameters():
            parameter += 0.05 * torch.randn_like(parameter) if parameter.ndim == 1 and len(parameter) > 1 else 0
    hub_model.save_pretrained(tmp_path / "theirs")
    cfg = SIGLIP | {"embed_dim": 32, "vision_cfg": SIGLIP["vision_cfg"] | {"image_size": 32}}
    cfg["text_cfg"] = cfg["text_cfg"] | {"norm_kwargs": {"eps": 1e-6}}
    write_json(tmp_path / "siglip.json", cfg)
    loaded = backbone.load(tmp_path / "theirs", str(tmp_path / "siglip.json"), tokenizer="clip")
    compare(loaded, hub_model, loaded.tokenize(TEXTS), 32, atol)
    assert (loaded.clip.logit_scale.item(), loaded.clip.logit_bias.item()) == pytest.approx((2.0, -9.0))


def test_what_a_folder_of_transformers_may_say(tiny, clip_model, tmp_path):
    """An unknown activation, two of them, weights in parts, a tensor too few, and code beside them: one line each."""
    folder = tmp_path / "theirs"
    clip_model.save_pretrained(folder)
    config = read_json(folder / "config.json")

    def refusal_of(**towers: object) -> str:
        write_json(folder / "config.json", config | {k: config[k] | v for k, v in towers.items()})
        with pytest.raises(UserError) as error:
            backbone.load(folder, tiny)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "hidden_act='relu': must be one of quick_gelu" in refusal_of(text_config={"hidden_act": "relu"})
    towers = {"text_config": {"hidden_act": "gelu"}, "vision_config": {"hidden_act": "quick_gelu"}}
    assert "two activations, gelu and quickgelu" in refusal_of(**towers)
    write_json(folder / "config.json", config | {"auto_map": {"AutoModel": "evil.Model"}})
    backbone.load(folder, tiny)  # code is not looked at
    state = load_file(folder / "model.safetensors")
    first = "text_model.encoder.layers.0.self_attn.q_proj.weight"
    save_file({k: v for k, v in state.items() if k != first}, folder / "model.safetensors")
    assert "'transformer.resblocks.0.attn.in_proj_weight" in refusal_of()
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    assert "has config.json but no weights; put model.safetensors there" in refusal_of()
