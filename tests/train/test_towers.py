"""Methods and options on every family of towers: they train, or a line refuses them before anything runs."""

import contextlib
import itertools
from dataclasses import fields

import pytest
import torch
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config import least_memory
from compclip.interface.method import LOOKED_AT, load_method
from compclip.interface.views import Step, Views
from compclip.model import backbone, clip_model, rotary_text
from compclip.model import towers as model_towers
from compclip.model.tokenizers import ClipTokenizer
from compclip.train import extras, optimiser, simulated_step
from perf.truth import towers

# One of each kind: patches and tokens, spans of concepts, regions, class tokens, rotary positions, a decoder, a
# codebook that starts anew, words of patches, a head that looks at patches, a teacher, further pictures, composites.
KINDS = ("fsc_clip", "c2lip", "fineclip", "llip", "clip_in", "read_clip", "il_clip", "superclip.wide", "flair", "degla",
         "triplet_clip", "hybrid.local", "clic", "fg_clip")  # fmt: skip
# With those of options and of two processes a tenth of the table.
PAIRS = list(zip(itertools.cycle(KINDS), [*towers.FAMILIES] * 4, strict=False))
TRANSFORMERS = ("XLM-R", "mT5", "NLLB")


@pytest.fixture(scope="module", autouse=True)
def models(tmp_path_factory):
    """The families' configs, in the current folder."""
    folder = tmp_path_factory.mktemp("models")
    towers.lay_models(folder)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(model_towers, "COMPILER", "eager")
        yield


def build(family: str, method: str = "finetune", **options):
    run = towers.make_run(method, **options)
    torch.manual_seed(0)
    return simulated_step.build_model(run, load_method(run.method_name), towers.FAMILIES[family], "cpu")


def list_views(name: str) -> set[str]:
    """What a method asks of a batch or of the towers, at any step."""
    run = towers.make_run(name)
    method = load_method(run.method_name)
    steps = [method.views(run.method, Step(number, simulated_step.PER_EPOCH)) for number in LOOKED_AT]
    asked = {f.name for views in steps for f in fields(Views) if getattr(views, f.name) != getattr(Views(), f.name)}
    return asked | ({"teacher"} if method.teacher(run.method) else set())


def test_the_tenth_has_every_family_and_every_kind_of_method():
    """What any method of the table asks for is asked for here."""
    assert {family for _, family in PAIRS} == set(towers.FAMILIES)
    kinds = set().union(*map(list_views, KINDS))
    assert not {name: asked for name in towers.METHODS if (asked := list_views(name) - kinds)}
    cells = len(towers.FAMILIES) * len([*towers.METHODS, *towers.VARIANTS, *towers.OPTIONS, *towers.TOGETHER])
    assert len(set(PAIRS)) + 2 * len(towers.FAMILIES) >= cells / 10


# Method, options and processes by the table's row, and a family beside each.
ROWS = {name: (name, {}, 1) for name in KINDS} | {
    name: ("finetune", options, 1) for name, options in towers.OPTIONS.items()
}
ROWS |= {f"two processes, {row}": (*of_row, 2) for row, of_row in towers.TOGETHER.items()}
CELLS = [*PAIRS, *zip(itertools.cycle(towers.OPTIONS), towers.FAMILIES, strict=False)]
CELLS += zip(itertools.cycle(name for name in ROWS if name.startswith("two ")), towers.FAMILIES, strict=False)


@pytest.mark.parametrize(("row", "family"), CELLS)
def test_a_cell_trains_or_is_refused_before(row, family):
    """The check of the config says what a step says, and with two processes what two steps say."""
    method, options, processes = ROWS[row]
    outcome = towers.try_cell(towers.make_run(method, **options), towers.FAMILIES[family], processes, processes)
    assert not outcome.fails, outcome.line
    assert outcome.line == towers.TRAINS or family != "ViT" or row not in KINDS


@pytest.mark.parametrize(("family", "says"), [("ViT", "yes"), ("SigLIP", "yes"), ("ResNet", "refused"),
                                              ("mT5", "other draws")])  # fmt: skip
def test_parts_of_a_batch_give_what_the_docs_say(family, says):
    """Of one process or of two: losses of whole batches, a refusal, or those of other draws."""
    assert towers.check_cut(towers.FAMILIES[family]) == says
    assert towers.check_together(towers.FAMILIES[family]) == says
    if says == "yes":  # the second loss would show an update that differs
        losses = towers.try_cell(towers.make_run("finetune"), towers.FAMILIES[family]).losses
        assert abs(losses[1] - losses[0]) > 5e-3
        assert " for " in towers._compare(towers.FAMILIES[family], towers.Outcome(losses=(losses[0], losses[0])))


@pytest.mark.parametrize("check", [towers.check_resumed, towers.check_published])
@pytest.mark.parametrize("family", ["ResNet", "MobileCLIP", "XLM-R"])
def test_a_family_resumes_and_opens_in_open_clip(family, check):
    """Statistics of batch norms and draws of dropout included."""
    assert check(towers.FAMILIES[family]) == towers.TRAINS


# --- tokens and patches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_tokens_of_a_transformers_tower_are_what_its_pooler_pools(family):
    """The vector is open_clip's; each position goes through the same projection."""
    clip = build(family).clip.eval()
    text_BL = torch.tensor([[5, 6, 7, 2], [5, 6, 2, clip.text.config.pad_token_id]])
    vector_BD, token_BLD = model_towers.encode_texts(clip, text_BL, tokens=True)
    assert torch.equal(vector_BD, clip.encode_text(text_BL, normalize=True))
    assert token_BLD.shape == (2, 4, 16)
    if family == "NLLB":  # pools the first
        pooled_BD = token_BLD[:, 0]
    elif family == "mT5":  # a mean, and a linear projection
        mask_BL1 = (text_BL != clip.text.config.pad_token_id)[..., None]
        pooled_BD = (token_BLD * mask_BL1).sum(1) / mask_BL1.sum(1)
    else:
        return
    torch.testing.assert_close(F.normalize(pooled_BD, dim=-1), vector_BD)


def test_cells_of_a_resnet_are_what_its_pool_gives_where_each_sees_itself():
    """Attention whose mask lets a position see itself alone is its value map and output projection."""
    clip = build("ResNet").clip.eval()
    image_B3HW = torch.randn(2, 3, 64, 64)
    vector_BD, cell_BND = model_towers.encode_images(clip, image_B3HW, tokens=True)
    assert torch.equal(vector_BD, clip.encode_image(image_B3HW, normalize=True))
    pool = clip.visual.attnpool
    feature_NBW = clip.visual.forward_intermediates(image_B3HW, indices=1)["image_intermediates"][0].flatten(2)
    feature_NBW = feature_NBW.permute(2, 0, 1) + pool.positional_embedding[1:, None]
    alone_NN = torch.full((4, 4), -torch.inf).fill_diagonal_(0.0)
    expected_NBD, _ = F.multi_head_attention_forward(
        feature_NBW, feature_NBW, feature_NBW, feature_NBW.shape[-1], pool.num_heads, None,
        torch.cat([pool.q_proj.bias, pool.k_proj.bias, pool.v_proj.bias]), None, None, False, 0.0,
        pool.c_proj.weight, pool.c_proj.bias, use_separate_proj_weight=True, q_proj_weight=pool.q_proj.weight,
        k_proj_weight=pool.k_proj.weight, v_proj_weight=pool.v_proj.weight, attn_mask=alone_NN)  # fmt: skip
    torch.testing.assert_close(cell_BND, expected_NBD.transpose(0, 1))


# --- what is read from the tower, not from its names or CLIP's numbers ----------------------------------------------


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_words_are_the_towers_and_norms_are_not_decayed(family):
    """A config that names a tower of transformers does not say how many there are; a T5's norms are none of torch's."""
    model = build(family)
    assert extras.widths(model).vocabulary == 60000
    assert extras.widths(build("ViT")).vocabulary == towers.WORDS
    decayed = optimiser.list_decayed(model.clip, "all_but_norms", list(model.clip.named_parameters()))
    assert decayed and not [name for name in decayed if "layer_norm" in name or "LayerNorm" in name]
    assert family != "mT5" or "text.proj.weight" in decayed


@pytest.mark.parametrize("family", [name for name in towers.FAMILIES if name != "CoCa"])
def test_text_layers_are_the_towers_layers(family):
    """Behind the first so many they stand still; embeddings, norms and all of a projection are trained."""
    clip = build(family).clip
    optimiser.freeze(clip, towers.make_run("finetune", trainable="text", text_layers=1).train)
    frozen = {name for name, p in clip.named_parameters() if not p.requires_grad and not name.startswith("visual.")}
    second_layers = [f".{layers}.1." for layers in ("resblocks", "layer", "block", "layers")]
    of_text = [
        name for name, _ in clip.named_parameters() if not name.startswith("visual.") and ".block.0." not in f".{name}"
    ]
    of_second = {name for name in of_text if any(layer in f".{name}" for layer in second_layers)}
    assert frozen and frozen == of_second


def test_a_text_tower_of_transformers_is_not_counted_as_clips(tmp_path):
    """The bound of memory leaves out what the config does not say."""
    assert least_memory._count_tower(towers.FAMILIES["XLM-R"], "text") == (0, 0)
    assert least_memory._count_tower(towers.FAMILIES["ViT"], "text")[0] > towers.WORDS
    assert least_memory.count_products("xlm-roberta-base-ViT-B-32") == (0.0, 0.0)


# --- batch norms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["ResNet", "MobileCLIP", "MobileCLIP-B"])
def test_batch_norms_see_whole_batches(family):
    """A batch that is cut, spread over processes or encoded twice is refused; with a frozen tower nothing is."""
    for options, processes, key in (
        ({"micro_batch": 2}, 1, "train.micro_batch=2"),
        ({}, 2, "2 processes"),
        ({"checkpoint_activations": True}, 1, "train.checkpoint_activations=true"),
    ):
        if family == "ResNet" and "checkpoint_activations" in options:
            continue  # open_clip's keeps everything
        for trainable in ("all", "text"):
            train = towers.make_run("finetune", trainable=trainable, **options).train
            clip = build(family).clip
            optimiser.freeze(clip, train)
            optimiser.set_modes(clip)
            refused = pytest.raises(UserError, match=f"{key}: not with the batch norms of a trained .*trainable=text")
            with refused if trainable == "all" else contextlib.nullcontext():
                optimiser.check_batch_norms(clip, train, processes)
    whole = towers.make_run("finetune", micro_batch=towers.BATCH).train
    optimiser.check_batch_norms(build(family).clip.train(), whole)


# --- what plain open_clip cannot open -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "says"), [("clip_in.rotary", "text_cfg.rotary"), ("llip", "vision_cfg.class_tokens"), ("finetune", "")]
)
def test_a_checkpoint_says_what_open_clip_does_not_know(method, says, tmp_path):
    """Beside its config, where a reader of the error looks."""
    model = build("ViT", method)
    object.__setattr__(model, "tokenizer", model.tokenizer or ClipTokenizer(77))
    model.save(tmp_path)
    note = read_json(tmp_path / clip_model.CONFIG).get("note", "")
    begins = f"{says}: plain open_clip does not know this and refuses the folder; open it by"
    assert note.startswith(begins) == bool(says)
    with pytest.raises(TypeError) if says else contextlib.nullcontext():
        clip_model.build_module(model.model_cfg)
    if method != "finetune":
        rotary_text.build_module(model.model_cfg).load_state_dict(model.clip.state_dict())


def test_no_config_of_open_clip_has_an_option_of_ours():
    """So that no other checkpoint is said to be refused."""
    for name in ("ViT-B-32", "ViT-B-16-SigLIP2", "coca_ViT-L-14", "PE-Core-B-16", "nllb-clip-base", "MobileCLIP2-S4"):
        assert not clip_model.list_own_options(backbone.read_architecture(name))
