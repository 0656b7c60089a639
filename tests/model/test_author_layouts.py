"""Checkpoints of authors' own models: made files in their layouts against slow sums of what their code computes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.sections import DEFAULT_SCORING, Backbone
from compclip.evaluate import embed, pair_scorers
from compclip.evaluate.embeddings import Embeddings
from compclip.model import author_layouts, backbone, rotary_text, weight_files
from compclip.model.clip_model import ClipModel
from tests.model.test_towers import TINY

WIDTH, TEXTS = 16, ["a red umbrella", "", "a blue anchor to the left of a star", "word " * 100]
CFG = TINY | {"text_cfg": TINY["text_cfg"] | {"width": WIDTH, "heads": 1}}


def spread(module: nn.Module) -> nn.Module:
    """Weights away from where they start, so that none stands for another; no dropout, no gradients."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return module.eval().requires_grad_(False)


@pytest.fixture(params=["quick"])
def source(request, tmp_path) -> ClipModel:
    """A tiny CLIP, whose towers the made files have; tiny.json is GELU's, quick.json QuickGELU's."""
    torch.manual_seed(0)
    write_json(tmp_path / "tiny.json", CFG)
    write_json(tmp_path / "quick.json", CFG | {"quick_gelu": True})
    model = backbone.create(str(tmp_path / f"{request.param}.json"), seed=3)
    model.clip.eval().requires_grad_(False)  # for sums by hand
    return model


of_gelu = pytest.mark.parametrize("source", ["tiny"], indirect=True)


def check_gelu(file: Path) -> None:
    """Assert that a file is refused by a model with QuickGELU."""
    with pytest.raises(UserError, match="trained with gelu"):
        backbone.load(file, str(file.parent / "quick.json"))


@pytest.fixture
def pictures(tmp_path) -> list[str]:
    """Two pictures, wide and tall, none the size of the model's square."""
    generator = np.random.default_rng(0)
    for name, shape in (("wide", (40, 90, 3)), ("tall", (70, 50, 3))):
        Image.fromarray(generator.integers(0, 256, shape, np.uint8)).save(tmp_path / f"{name}.png")
    return [str(tmp_path / "wide.png"), str(tmp_path / "tall.png")]


def scored(model: ClipModel, refs: list[str]) -> Embeddings:
    """Vectors and scores as an evaluation has them."""
    embeddings = embed.encode(model, refs, TEXTS)
    return pair_scorers.by_head(embeddings, [model], DEFAULT_SCORING, embed.PreparedPictures())


def read_both_ways(path: Path, config: Path, tmp_path: Path) -> list[ClipModel]:
    """The file, and the folder that is saved of it, which an evaluation of the grid reads."""
    model = backbone.load(path, str(config))
    model.save(tmp_path / "saved")
    return [model, backbone.load(tmp_path / "saved")]


def hidden_states(model: ClipModel, refs: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """What the towers' blocks give: tokens of pictures [B, 1 + N, W], of texts [T, L, V] behind ln_final, and end tokens."""
    clip = model.clip
    pixels = model.pixels([Image.open(ref) for ref in refs])
    ids_TL = model.tokenize(TEXTS)
    x_TLV = clip.token_embedding(ids_TL) + clip.positional_embedding
    image_BNW = clip.visual.transformer(clip.visual._embeds(pixels))
    return image_BNW, clip.ln_final(clip.transformer(x_TLV, attn_mask=clip.attn_mask)), ids_TL.argmax(1)


def attended(query_D: Tensor, key_ND: Tensor, value_ND: Tensor, scale: float, heads: int) -> Tensor:
    """Values of each head in the shares of a softmax, side by side, in loops and float64."""
    pooled, size = [], len(query_D) // heads
    for head in range(heads):
        head_slice = slice(head * size, (head + 1) * size)
        fits = [math.exp(float(query_D[head_slice] @ key_D[head_slice]) * scale) for key_D in key_ND]
        pooled.append(sum(fit / sum(fits) * value_D[head_slice] for fit, value_D in zip(fits, value_ND, strict=True)))
    return torch.cat(pooled)


def cosine(a_D: Tensor, b_D: Tensor) -> float:
    return float(a_D @ b_D / a_D.norm() / b_D.norm())


class AttentionByText(nn.Module):
    """The parts of FLAIR's pooling by its names."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(WIDTH, 8, batch_first=True, add_zero_attn=True)
        self.ln_q, self.ln_k, self.ln_v = (nn.LayerNorm(WIDTH) for _ in range(3))


@of_gelu
def test_flair(source, pictures, tmp_path):
    """Projections behind the towers, and patches pooled by the text with one more patch of zeros."""
    pool, state = spread(AttentionByText()), dict(source.clip.state_dict())
    image_post, text_post = state.pop("visual.proj"), state.pop("text_projection")
    state |= {"image_post.proj": image_post, "text_post.proj": text_post, "logit_bias": torch.tensor(-10.0)}
    state |= {f"visual_proj.{name}": tensor for name, tensor in pool.state_dict().items()}
    torch.save({"epoch": 1, "state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "flair.pt")
    image_BNW, text_TLV, end_T = hidden_states(source, pictures)
    patch_BND = source.clip.visual.ln_post(image_BNW)[:, 1:] @ image_post
    text_TD = text_TLV[range(len(TEXTS)), end_T] @ text_post
    weights, biases = pool.attn.in_proj_weight.double().chunk(3), pool.attn.in_proj_bias.double().chunk(3)
    expected = np.zeros((len(pictures), len(TEXTS)))
    for i, patch_ND in enumerate(patch_BND):
        key_ND, value_ND = (norm(patch_ND).double() @ w.T + b for norm, w, b in
                            zip((pool.ln_k, pool.ln_v), weights[1:], biases[1:], strict=True))  # fmt: skip
        zero_1D = torch.zeros(1, WIDTH, dtype=torch.float64)
        for t, text_D in enumerate(text_TD):
            query_D = pool.ln_q(text_D).double() @ weights[0].T + biases[0]
            mixed_D = attended(query_D, torch.cat([key_ND, zero_1D]), torch.cat([value_ND, zero_1D]), 2**-0.5, 8)
            out = pool.attn.out_proj
            expected[i, t] = cosine(mixed_D @ out.weight.double().T + out.bias.double(), text_D.double())
    assert np.ptp(expected) > 0.05
    for model in read_both_ways(tmp_path / "flair.pt", tmp_path / "tiny.json", tmp_path):
        np.testing.assert_allclose(scored(model, pictures).table(pictures, TEXTS), expected, atol=2e-5)
        assert model.clip.logit_bias.item() == -10.0
    check_gelu(tmp_path / "flair.pt")


def superclip_file(source: ClipModel, path: Path) -> None:
    """Write SuperCLIP's layout: a text tower with names of its own, the layer that reads words, and its counts."""
    state = {name if name.startswith(("visual.", "logit_scale")) else f"text.{name}": tensor
             for name, tensor in source.clip.state_dict().items()}  # fmt: skip
    words = nn.ModuleDict({"ln_mlp": nn.LayerNorm(32), "text_projection": nn.Linear(32, 7)}).state_dict()
    state |= {f"text_decoder.{name}": tensor for name, tensor in words.items()}
    state |= {"cap_fq": torch.zeros(1, 7).double(), "num_samples": torch.zeros(1, 1).double()}
    torch.save({"epoch": 1, "state_dict": {f"module.{name}": tensor for name, tensor in state.items()}}, path)


def test_long_clip(pictures, tmp_path):
    """Texts of 248 tokens: a token's place is looked up in one list up to the 20th, behind it in the other."""
    torch.manual_seed(0)
    text_cfg = CFG["text_cfg"] | {"context_length": 248}
    write_json(tmp_path / "long.json", CFG | {"quick_gelu": True, "text_cfg": text_cfg})
    write_json(tmp_path / "quick.json", CFG | {"quick_gelu": True})
    write_json(tmp_path / "tiny.json", CFG)
    source = backbone.create(str(tmp_path / "long.json"), seed=3)
    source.clip.eval().requires_grad_(False)
    first_PV, second_PV = torch.randn(2, 248, WIDTH)
    state = source.clip.state_dict() | {"positional_embedding": first_PV, "positional_embedding_res": second_PV}
    torch.save(state, tmp_path / "longclip.pt")
    ids_TL = source.tokenize(TEXTS)
    place_LV = torch.stack([(first_PV if place < 20 else second_PV)[place] for place in range(248)])
    mask_LL = torch.full((248, 248), -torch.inf).triu(1)
    hidden_TLV = source.clip.transformer(source.clip.token_embedding(ids_TL) + place_LV, attn_mask=mask_LL)
    end_TV = source.clip.ln_final(hidden_TLV)[range(len(TEXTS)), ids_TL.argmax(1)]
    text_TD = end_TV @ source.clip.text_projection
    image_BD = source.clip.encode_image(source.pixels([Image.open(ref) for ref in pictures]))
    expected = np.array([[cosine(image_D, text_D) for text_D in text_TD] for image_D in image_BD])
    assert (ids_TL.argmax(1) > 77).any()
    for model in read_both_ways(tmp_path / "longclip.pt", tmp_path / "quick.json", tmp_path):
        assert model.head is None
        assert model.tokenize(TEXTS).shape == (len(TEXTS), 248)
        np.testing.assert_allclose(scored(model, pictures).table(pictures, TEXTS), expected, atol=2e-5)
    with pytest.raises(UserError, match="trained with quickgelu"):
        backbone.load(tmp_path / "longclip.pt", str(tmp_path / "tiny.json"))


@of_gelu
def test_superclip(source, pictures, tmp_path):
    """CLIP's cosines, with GELU."""
    superclip_file(source, tmp_path / "superclip.pt")
    expected = scored(source, pictures).table(pictures, TEXTS)
    for model in read_both_ways(tmp_path / "superclip.pt", tmp_path / "tiny.json", tmp_path):
        assert model.head is None
        np.testing.assert_array_equal(scored(model, pictures).table(pictures, TEXTS), expected)
    check_gelu(tmp_path / "superclip.pt")


def asking(width: int) -> nn.Sequential:
    """FDT's q_map."""
    layers = (nn.LayerNorm(width), nn.Linear(width, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    return spread(nn.Sequential(*layers))


def finite_tokens_file(source: ClipModel, path: Path, codes: int = 6) -> tuple[nn.Sequential, nn.Sequential, Tensor]:
    """Write FDT's layout: DDP's prefix, a vocabulary with <|mask|>, projections that nothing reads."""
    image_map, text_map, code_CD = asking(32), asking(WIDTH), 30 * torch.randn(codes, WIDTH)
    state = {}
    for name, tensor in source.clip.state_dict().items():
        if name == "token_embedding.weight":
            tensor = torch.cat([tensor[:-2], torch.full((1, WIDTH), 9.0), tensor[-2:]])
        of_text = not name.startswith(("visual.", "logit_scale", "text_projection"))
        state[f"encode_text.{name}" if of_text else name] = tensor
    del state["text_projection"]
    state |= {"encode_text.text_projection.weight": torch.randn(WIDTH, WIDTH), "encode_text.text_projection.bias": torch.zeros(WIDTH)}  # fmt: skip
    state |= {"logit_scale": state["logit_scale"][None], "logit_scale_sd": torch.ones(1), "space_dict": code_CD}
    for side, asks in (("img", image_map), ("txt", text_map)):
        state |= {f"{side}_query_model.q_map.{name}": tensor for name, tensor in asks.state_dict().items()}
    module = {f"module.{name}": tensor for name, tensor in state.items()}
    torch.save({"model": module, "optimizer": {"state": {}}, "last_iter": 3}, path)
    return image_map, text_map, code_CD


def sum_of_codes(answers: list[Tensor], code_CD: Tensor) -> Tensor:
    """The best answer of each code, and codes in the shares of sparsemax: the threshold at which these sum to one."""
    best = torch.stack(answers).amax(0).tolist()
    low, high = min(best) - 1, max(best)
    for _ in range(200):  # bisection
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(0.0, b - middle) for b in best) > 1 else (low, middle)
    total_D = sum(max(0.0, b - low) * code_D for b, code_D in zip(best, code_CD.double(), strict=True))
    return total_D / total_D.norm()


def test_finite_tokens(source, pictures, tmp_path):
    """FDT and iterated learning: start tokens ask, padding answers nothing, a full text has no padding."""
    image_map, text_map, code_CD = finite_tokens_file(source, tmp_path / "fdt.pth")
    statistics = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    prepared = backbone.prepare_otherwise(source, statistics | {"interpolation": "bilinear", "resize": 256})
    image_BNW, text_TLV, end_T = hidden_states(prepared, pictures)
    scale = 1 / (WIDTH**0.5 * 1000)
    images = [sum_of_codes([image_map(x_W).double() @ code_CD.double().T * scale for x_W in x_NW[1:]], code_CD)
              for x_NW in image_BNW]  # fmt: skip
    texts = []
    for x_LV, end in zip(text_TLV, end_T.tolist(), strict=True):
        answers = [text_map(x_V).double() @ code_CD.double().T * scale for x_V in x_LV[: end + 1]]
        texts.append(sum_of_codes(answers + [torch.zeros(len(code_CD))] * (end < 76), code_CD))
    assert end_T.tolist()[1] == 1 and end_T.tolist()[3] == 76
    for model in read_both_ways(tmp_path / "fdt.pth", tmp_path / "quick.json", tmp_path):
        targets = scored(model, pictures)
        np.testing.assert_allclose(targets.images(pictures), torch.stack(images), atol=1e-5)
        np.testing.assert_allclose(targets.texts(TEXTS), torch.stack(texts), atol=1e-5)
        assert model.preprocess_cfg["resize"] == 256
    assert np.ptp(targets.table(pictures, TEXTS)) > 1e-4


def test_the_shorter_side_before_the_square(source, pictures):
    """As torchvision's Resize(256) and CenterCrop do, by PIL alone; here 48 and 32."""
    model = backbone.prepare_otherwise(source, {"resize": 48, "interpolation": "bilinear"})
    picture = Image.open(pictures[0]).resize((108, 48), Image.Resampling.BILINEAR).crop((38, 8, 70, 40))
    assert np.array_equal(np.asarray(model.fit_picture(Image.open(pictures[0]))), np.asarray(picture))
    with pytest.raises(UserError, match="preprocess_cfg: does not prepare a picture"):
        backbone.prepare_otherwise(source, {"resize": "much"})


TOKENS = 3


def llip_file(source: ClipModel, path: Path, prefix: str = "_orig_mod.") -> dict[str, Tensor]:
    """Write Llip's layout, of three class tokens."""
    state = {k: v for k, v in source.clip.state_dict().items() if k != "visual.proj"}
    patches = state["visual.positional_embedding"][1:]
    llip_state = {"visual.class_embedding": torch.randn(TOKENS, 32), "q_proj": torch.randn(WIDTH, WIDTH),
           "visual.positional_embedding": torch.cat([torch.randn(TOKENS, 32), patches]), "pred.out_proj": torch.randn(WIDTH, WIDTH),
           "k_proj": torch.randn(TOKENS, 32, WIDTH), "v_proj": torch.randn(TOKENS, 32, WIDTH)}  # fmt: skip
    torch.save({"epoch": 2, "state_dict": {f"{prefix}{k}": v for k, v in (state | llip_state).items()}}, path)
    return llip_state


def test_llip(source, pictures, tmp_path):
    """Class tokens with maps of their own, mixed by the text in shares of a softmax at 5; texts by their vectors alone."""
    llip_state = llip_file(source, tmp_path / "llip.pt")
    clip, (_, text_TLV, end_T) = source.clip, hidden_states(source, pictures)
    patch_BNW = clip.visual.conv1(source.pixels([Image.open(ref) for ref in pictures])).flatten(2).transpose(1, 2)
    h_TV = text_TLV[range(len(TEXTS)), end_T].double()
    text_TD, query_TD = h_TV @ clip.text_projection.double(), h_TV @ llip_state["q_proj"].double()
    expected = np.zeros((len(pictures), len(TEXTS)))
    maps = []
    for i, patch_NW in enumerate(patch_BNW):
        x_NW = torch.cat([llip_state["visual.class_embedding"], patch_NW]) + llip_state["visual.positional_embedding"]
        x_NW = clip.visual.ln_post(clip.visual.transformer(clip.visual.ln_pre(x_NW[None]))[0])
        key_ND, value_ND = (torch.einsum("kw,kwd->kd", x_NW[:TOKENS].double(), llip_state[name].double())
                            for name in ("k_proj", "v_proj"))  # fmt: skip
        maps.append((key_ND, value_ND))
        for t in range(len(TEXTS)):
            mixed_D = attended(query_TD[t], key_ND, value_ND, 1 / 5, 8) @ llip_state["pred.out_proj"].double()
            expected[i, t] = cosine(mixed_D, text_TD[t])
    unit_TD = F.normalize(text_TD, dim=1)
    assert np.ptp(expected) > 0.1
    for model in read_both_ways(tmp_path / "llip.pt", tmp_path / "quick.json", tmp_path):
        targets = scored(model, pictures)
        np.testing.assert_allclose(targets.table(pictures, TEXTS), expected, atol=2e-5)
        pairs = [TEXTS, TEXTS[1:] + TEXTS[:1]]
        np.testing.assert_allclose(targets.similarities(*pairs), (unit_TD * unit_TD.roll(-1, 0)).sum(1), atol=1e-5)
        class_D = targets.texts(TEXTS[:3]).mean(0)
        class_score = targets.against(pictures, (class_D / np.linalg.norm(class_D))[None])[0, 0]
        towers_ID = embed.encode(model, pictures, []).images(pictures)
        vectors_ID = torch.stack([value_ND[0] for _, value_ND in maps])
        np.testing.assert_allclose(towers_ID, F.normalize(vectors_ID, dim=1), atol=1e-5)
    mixed_D = attended(query_TD[:3].mean(0), *maps[0], 1 / 5, 8) @ llip_state["pred.out_proj"].double()
    assert class_score == pytest.approx(cosine(mixed_D, unit_TD[:3].mean(0)), abs=2e-5)  # the class of three prompts


def eva_clip_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """What EVA-CLIP calls the tensors of open_clip's EVA02, and the angles that it stores."""
    renamed = {"visual.rope.freqs_cos": torch.ones(2), "visual.blocks.0.attn.rope.freqs_sin": torch.ones(2)}
    pairs = (("visual.trunk.", "visual."), ("mlp.norm", "mlp.ffn_ln"), ("attn.norm", "attn.inner_attn_ln"), ("fc1_g", "w1"),
             ("fc1_x", "w2"), ("fc2", "w3"), ("q_proj.bias", "q_bias"), ("v_proj.bias", "v_bias"))  # fmt: skip
    for name, tensor in state.items():
        for ours, theirs in pairs if name.startswith("visual.") else ():
            name = name.replace(ours, theirs)
        renamed[name] = tensor
    return renamed


@pytest.fixture
def eva(tmp_path, monkeypatch) -> ClipModel:
    """open_clip's EVA02 with a trunk of timm's that is small."""
    timm = pytest.importorskip("timm")
    sizes, create = {"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2}, timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, **kwargs: create(name, **kwargs | sizes))
    vision = {"image_size": 32, "timm_pool": "token", "timm_proj": None}
    vision["timm_model_name"] = "eva02_base_patch16_clip_224"
    write_json(tmp_path / "eva.json", CFG | {"custom_text": True, "vision_cfg": vision})
    model = backbone.create(str(tmp_path / "eva.json"), seed=1)
    spread(model.clip)
    return model


@pytest.mark.parametrize("custom", [True, False], ids=["CustomCLIP, FineCLIP", "CLIP, EVA-CLIP"])
def test_eva_clip(eva, tmp_path, custom):
    """The names that timm's own reader gives, and the source model to the bit."""
    from timm.models.eva import checkpoint_filter_fn

    state = eva.clip.state_dict()
    theirs = eva_clip_names({k if custom else k.removeprefix("text."): v for k, v in state.items()})
    torch.save({"epoch": 10, "state_dict": theirs}, tmp_path / "eva.pt")
    loaded_state = backbone.load(tmp_path / "eva.pt", str(tmp_path / "eva.json")).clip.state_dict()
    assert loaded_state.keys() == state.keys() and all(torch.equal(loaded_state[name], state[name]) for name in state)
    by_timm = checkpoint_filter_fn(theirs, eva.clip.visual.trunk)
    assert {f"visual.trunk.{name}" for name in by_timm} == {name for name in loaded_state if name.startswith("visual.")}
    assert all(torch.equal(tensor, loaded_state[f"visual.trunk.{name}"]) for name, tensor in by_timm.items())


DAMAGE = [
    ("llip", "v_proj", None, "'v_proj' is missing, expected 3 dimensions"),
    ("llip", "v_proj", torch.zeros(0, 32, WIDTH), "no weights of a head"),
    ("llip", "v_proj", torch.zeros(TOKENS, 32, 12), "12 numbers of a vector"),
    ("llip", "pred.out_proj", torch.full((WIDTH, WIDTH), torch.nan), "'out': holds NaN"),
    ("fdt", "space_dict", torch.zeros(6, 8), "no weights of a head"),
    ("fdt", "encode_text.token_embedding.weight", None, "'token_embedding.weight' is missing"),
    ("fdt", "encode_text.positional_embedding", None, "no such checkpoint: 'positional_embedding'"),
    ("fdt", "txt_query_model.q_map.4.weight", torch.zeros(3, 3), "no weights of a head"),
]


def test_a_damaged_file_is_refused_in_one_line(source, tmp_path):
    path, states = tmp_path / "theirs.pt", {}
    llip_file(source, path)
    states["llip"] = weight_files.read_weights(path)
    finite_tokens_file(source, path)
    states["fdt"] = weight_files.read_weights(path)
    for kind, name, value, message in DAMAGE:
        state = {k: v for k, v in (states[kind] | {name: value}).items() if v is not None}
        with pytest.raises(UserError, match=message) as error:
            author_layouts.convert(state, path)
        assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_clip_in(source, tmp_path):
    """A text tower of its own without positions is the one of rotary positions; one with them is left as it is."""
    words = {name: tensor for name, tensor in source.clip.state_dict().items() if name != "positional_embedding"}
    outside = ("visual.", "logit_")
    state = {name if name.startswith(outside) else f"text.{name}": tensor for name, tensor in words.items()}
    torch.save({"epoch": 1, "state_dict": {f"module.{k}": v for k, v in state.items()}}, tmp_path / "clip_in.pt")
    rotary_text.convert_tower(source, 200)
    ids_TL = source.tokenize(TEXTS)
    expected = F.normalize(source.clip.encode_text(ids_TL), dim=-1)
    for model in read_both_ways(tmp_path / "clip_in.pt", tmp_path / "quick.json", tmp_path):
        assert model.model_cfg["text_cfg"]["rotary"] is True and torch.equal(model.tokenize(TEXTS), ids_TL)
        embeddings = embed.encode(model, [], TEXTS)
        vectors = torch.from_numpy(embeddings.text_TD[[embeddings.text_row[text] for text in TEXTS]])
        torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)
    assert author_layouts.convert(state | {"text.positional_embedding": words["logit_scale"]}, tmp_path).text_cfg == {}
    spec = Backbone(model=str(tmp_path / "quick.json"), weights=str(tmp_path / "clip_in.pt"))
    with pytest.raises(UserError, match="has rotary positions, with which training does not begin"):
        backbone.load_backbone(spec, 0)
