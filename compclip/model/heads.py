"""Heads that stay with a model: trained parts beside the two towers that decide how a picture and a text are compared.

A checkpoint with a head is a folder in open_clip's format with two more files; plain open_clip reads its towers alone.
A head of one kind maps vectors, which are compared by their cosine as ever; one of the other kind scores pairs, since
what it makes of a picture depends on the text.

B pictures or texts, T texts, N patches, K class tokens, L positions of a text, C codes, D joint dim, H attention heads,
W width of an image token.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from compclip.base.errors import UserError, report_failure, unknown
from compclip.base.files import read_mapping, write_json
from compclip.model import clip_model, towers, weight_files

if TYPE_CHECKING:
    from compclip.model.clip_model import ClipModule


CONFIG = "compclip_head.json"
WEIGHTS = "compclip_head.safetensors"
ADVICE = f"fetch the folder again, or remove {CONFIG} to have the towers alone"


def in_float32(method: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compute a head's method without autocast, tensors of floats in the type of the head's weights."""

    @functools.wraps(method)
    def wrapped(self: Head, *args: Any) -> Tensor:
        dtype = next(self.parameters()).dtype
        values = list(args)
        for number, value in enumerate(args):
            if isinstance(value, Tensor) and value.is_floating_point():
                values[number] = value.to(dtype)
        with torch.autocast(args[0].device.type, enabled=False):
            return method(self, *values)

    return wrapped


class Head(nn.Module):
    """A part that stays with the model. `options` build it again; a subclass overrides what it changes."""

    kind: ClassVar[str]
    needs_tokens: ClassVar[bool] = False  # the maps look at patches and text tokens
    reads_raw: ClassVar[bool] = False  # `map_long` maps long captions, from before the text projection
    scores_pairs: ClassVar[bool] = False  # `score` compares, and a picture has no one vector

    def __init__(self, **options: int) -> None:
        super().__init__()
        self.options = options

    @property
    def text_numbers(self) -> int | None:
        """How many of the numbers that `map_texts` gives compare a text with another one; None: all."""
        return None

    def map_images(self, image_BD: Tensor, patch_BND: Tensor | None = None) -> Tensor:
        """Return the unit vectors [B, D] by which pictures are compared."""
        return image_BD

    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return the unit vectors [B, D] by which texts are compared; `own_BL` is True on a text's own tokens."""
        return text_BD

    def score(self, patch_BND: Tensor, text_TD: Tensor) -> Tensor:
        """Return what takes the place of the cosines of pictures and texts, [B, T]."""
        raise NotImplementedError

    def start_from(self, clip: ClipModule) -> None:
        """Take over what of the towers the head begins as, before it is trained; most take nothing."""

    def start_state(self) -> dict[str, Tensor] | None:
        """Return weights by which the head compares as the towers alone do; None where there are none."""
        return None

    def move_towards_start(self, alpha: float) -> bool:
        """Take (1 - alpha) of the start's weights and alpha of these, in place; False for a head without a start."""
        start = self.start_state()
        if start is None:
            return False
        with torch.no_grad():
            for name, weight in self.state_dict().items():
                weight.copy_(torch.lerp(start[name].to(weight), weight, alpha))
        return True

    def save(self, folder: Path) -> None:
        """Write the head into a checkpoint's folder."""
        clip_model.write_tensors(folder / WEIGHTS, self.state_dict())
        write_json(folder / CONFIG, {"kind": self.kind, "options": self.options})


class TextMap(Head):
    """A linear map of the text's vector, the identity at first (LABCLIP), with a temperature to train it by."""

    kind = "text_map"

    def __init__(self, width: int) -> None:
        super().__init__(width=width)
        self.weight = nn.Parameter(torch.eye(width))
        self.log_scale = nn.Parameter(torch.zeros(()))

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return normalise(A t)."""
        return F.normalize(text_BD @ self.weight.T, dim=-1)

    def start_state(self) -> dict[str, Tensor]:
        """The identity."""
        return {"weight": torch.eye(len(self.weight)), "log_scale": torch.zeros(())}


class LongTexts(Head):
    """A projection of long captions in the place of the text tower's, of which it is a copy at first (FG-CLIP).

    By it benchmarks of long captions are compared (`Benchmark.long_texts`), all others by the tower's own. `maps` 2: a
    map of regions' texts too, which only trains, as the two scales do.
    """

    kind = "long_texts"
    reads_raw = True
    long: nn.Linear | None

    def __init__(self, width: int, raw_width: int, maps: int = 1) -> None:
        super().__init__(width=width, raw_width=raw_width, maps=maps)
        self.long = nn.Linear(raw_width, width, bias=False)
        if maps > 1:
            self.region = nn.Linear(width, width, bias=False)
            nn.init.eye_(self.region.weight)
        self.log_scale_regions = nn.Parameter(torch.zeros(()))
        self.log_scale_hard = nn.Parameter(torch.zeros(()))

    def start_from(self, clip: ClipModule) -> None:
        """Begin with the tower's projection; the identity where raw texts are projected already."""
        if self.long is not None:
            projection_WD = towers.find_text_matrix(clip)
            with torch.no_grad():
                nn.init.eye_(self.long.weight) if projection_WD is None else self.long.weight.copy_(projection_WD.T)

    @in_float32
    def map_long(self, raw_BW: Tensor) -> Tensor:
        """Return the unit vectors [B, D] of long captions."""
        assert self.long is not None
        return F.normalize(self.long(raw_BW), dim=-1)


class TextPooling(Head):
    """Patches pooled by attention with the text as its query, and the cosine of what comes out with the text (FLAIR).

    Layer norms of queries, keys and values, and one further key and value of zeros, so that a text that fits no patch
    may look at none. The query is the unit vector times the square root of D, so that its norm does not depend on eps.
    """

    kind = "text_pooling"
    scores_pairs = True

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width=width, heads=heads)
        check_split(width, heads)
        self.norm_query = nn.LayerNorm(width)
        self.norm_key = nn.LayerNorm(width)
        self.norm_value = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True, add_zero_attn=True)

    @in_float32
    def pool(self, patch_BND: Tensor, text_BTD: Tensor) -> Tensor:
        """Return unit vectors [B, T, D]: each picture as each of its texts sees it."""
        query_BTD = self.norm_query(text_BTD * text_BTD.shape[-1] ** 0.5)
        key_BND = self.norm_key(patch_BND)
        value_BND = self.norm_value(patch_BND)
        return F.normalize(self.attention(query_BTD, key_BND, value_BND, need_weights=False)[0], dim=-1)

    @in_float32
    def score(self, patch_BND: Tensor, text_TD: Tensor) -> Tensor:
        """Return the cosines of pictures, as texts see them, with these texts."""
        text_BTD = text_TD.expand(len(patch_BND), -1, -1)
        return (self.pool(patch_BND, text_BTD) * text_BTD).sum(dim=-1)


class TokenMixture(Head):
    """A picture's class tokens mixed by attention with the text as its query, and the cosine with the text (Llip).

    Each token has a key map and a value map of its own (`model.class_tokens`). The query is a map of the text's unit
    vector times the square root of D, which is about its length behind a layer norm.
    """

    kind = "token_mixture"
    scores_pairs = True

    def __init__(self, width: int, tokens: int, token_width: int, heads: int, temperature: int) -> None:
        super().__init__(width=width, tokens=tokens, token_width=token_width, heads=heads, temperature=temperature)
        check_split(width, heads)
        self.key = drawn_map(tokens, token_width, width)
        self.value = drawn_map(tokens, token_width, width)
        self.query = drawn_map(width, width)
        self.out = drawn_map(width, width)

    def start_from(self, clip: ClipModule) -> None:
        """Begin with the tower's projection as each token's value, so that a mixture is near the tower's vector."""
        with torch.no_grad():
            self.value.copy_(clip.visual.first_proj)
            self.out.copy_(torch.eye(len(self.out)))

    @in_float32
    def mix(self, patch_BKW: Tensor, text_TD: Tensor) -> Tensor:
        """Return unit vectors [B, T, D]: each picture as each text mixes its tokens, which stand for patches."""
        query_TD = text_TD * text_TD.shape[-1] ** 0.5 @ self.query
        maps = (self.key, self.value, self.out)
        return mix_tokens(patch_BKW, query_TD, *maps, self.options["heads"], self.options["temperature"])

    @in_float32
    def score(self, patch_BND: Tensor, text_TD: Tensor) -> Tensor:
        """Return the cosines of pictures, as texts mix their tokens, with these texts."""
        return torch.einsum("btd,td->bt", self.mix(patch_BND, text_TD), text_TD)


def check_split(width: int, heads: int) -> None:
    """Raise ValueError where attention heads cannot share the numbers of a vector evenly."""
    if width % heads:
        raise ValueError(f"heads={heads}: must divide the {width} numbers of a vector")


def drawn_map(*shape: int) -> nn.Parameter:
    """Return a map of the last but one dimension to the last, drawn so that lengths stay about as they are."""
    return nn.Parameter(torch.randn(shape) * shape[-2] ** -0.5)


def mix_tokens(
    patch_BKW: Tensor,
    query_TD: Tensor,
    key_KWD: Tensor,
    value_KWD: Tensor,
    out_DD: Tensor,
    heads: int,
    temperature: int,
) -> Tensor:
    """Return unit vectors [B, T, D]: tokens mixed by softmax of key and query over the temperature, head by head."""
    query_THd = query_TD.unflatten(1, (heads, -1))
    key_BKHd = torch.einsum("bkw,kwd->bkd", patch_BKW, key_KWD).unflatten(2, (heads, -1))
    value_BKHd = torch.einsum("bkw,kwd->bkd", patch_BKW, value_KWD).unflatten(2, (heads, -1))
    fit_BTHK = torch.einsum("bkhd,thd->bthk", key_BKHd, query_THd) / temperature
    mixed_BTHd = torch.einsum("bthk,bkhd->bthd", fit_BTHK.softmax(dim=-1), value_BKHd)
    return F.normalize(mixed_BTHd.flatten(2) @ out_DD, dim=-1)


class Codebook(Head):
    """Pictures and texts as sparse sums of shared codes (Codebook-CLIP; the finite discrete tokens of FDT).

    Each patch or token asks all codes by a small network of its side; a code's weight is sparsemax of its best answer.
    """

    kind = "codebook"
    needs_tokens = True
    temperature: Tensor

    def __init__(self, width: int, codes: int, code_width: int) -> None:
        super().__init__(width=width, codes=codes, code_width=code_width)
        self.code = nn.Parameter(torch.randn(codes, code_width))
        self.image_query = query_network(width, code_width)
        self.text_query = query_network(width, code_width)
        self.register_buffer("temperature", torch.ones(()))

    @in_float32
    def map_images(self, image_BD: Tensor, patch_BND: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that patches ask for."""
        assert patch_BND is not None
        return self._sum_codes(self.image_query(patch_BND))

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that a text's own tokens ask for."""
        assert token_BLD is not None
        return self._sum_codes(self.text_query(token_BLD), own_BL)

    def _sum_codes(self, query_BLW: Tensor, own_BL: Tensor | None = None) -> Tensor:
        """Pool answers over positions by their maximum; a text without a token of its own asks for all codes alike."""
        answer_BLC = query_BLW @ self.code.T / (self.code.shape[1] ** 0.5 * self.temperature)
        if own_BL is not None:
            answer_BLC = answer_BLC.masked_fill(~own_BL[..., None], -torch.inf)
        answer_BC = answer_BLC.amax(dim=1)
        answer_BC = torch.where(answer_BC.isneginf(), 0.0, answer_BC)
        return F.normalize(sparsemax(answer_BC) @ self.code, dim=-1)


def query_network(width: int, code_width: int) -> nn.Sequential:
    """Build the network by which a patch or token asks the codes."""
    layers = (nn.LayerNorm(width), nn.Linear(width, code_width), nn.GELU(), nn.LayerNorm(code_width))
    return nn.Sequential(*layers, nn.Linear(code_width, code_width))


def sparsemax(x_BC: Tensor) -> Tensor:
    """Return the nearest point of the simplex to each row (Martins and Astudillo 2016, arXiv:1602.02068, Alg. 1).

    A row with NaN or infinity gives NaN.
    """
    sorted_BC = x_BC.sort(dim=1, descending=True).values
    rank_C = torch.arange(1, x_BC.shape[1] + 1, device=x_BC.device, dtype=x_BC.dtype)
    cumulated_BC = sorted_BC.cumsum(dim=1)
    # of numbers at least 1; of a row with NaN or infinity none would be, and a GPU aborts where 0 - 1 is looked up
    support_B1 = (1 + rank_C * sorted_BC > cumulated_BC).sum(dim=1, keepdim=True).clamp_min(1)
    threshold_B1 = (cumulated_BC.gather(1, support_B1 - 1) - 1) / support_B1
    return (x_BC - threshold_B1).clamp_min(0)


KINDS: dict[str, Callable[..., Head]] = {
    head.kind: head for head in (TextMap, LongTexts, TextPooling, TokenMixture, Codebook)
}


def has_head(folder: Path) -> bool:
    """Return whether a checkpoint's folder has a head."""
    return (folder / CONFIG).is_file()


def load_head(folder: Path, kinds: Mapping[str, Callable[..., Head]] = KINDS) -> Head | None:
    """Return the head of a checkpoint's folder, in evaluation mode; None where there is none.

    Sizes are compared with the file before memory is given for them. Raises UserError for a head of a kind or with
    options that are not known, and for weights that are not its own.
    """
    if not has_head(folder):
        return None
    config = read_mapping(folder / CONFIG)
    kind = str(config.get("kind"))
    options = config.get("options")
    if kind not in kinds:
        raise unknown("head", kind, kinds, str(folder / CONFIG))
    sizes = list(options.values()) if isinstance(options, dict) else [None]
    if not all(type(size) is int and 0 < size < 2**20 for size in sizes):
        raise UserError(f"{folder / CONFIG}: options: must be whole numbers by name, from 1; {ADVICE}")
    kinds_of_error = (TypeError, ValueError, RuntimeError, AssertionError)
    with report_failure(f"{folder / CONFIG}: options", ADVICE, *kinds_of_error), torch.device("meta"):
        head = kinds[kind](**(options or {}))
    fault = f"weights of another head than {CONFIG} says"
    return fill_head(head, weight_files.read_tensors(folder / WEIGHTS), str(folder / WEIGHTS), fault, ADVICE)


def fill_head(head: Head, state: dict[str, Tensor], source: str, fault: str, fix: str) -> Head:
    """Return a head that was built without memory with its weights, in evaluation mode.

    Raises UserError as `weight_files.check_state`.
    """
    weight_files.check_state(state, head.state_dict(), source, fault, fix)
    head.load_state_dict(state, assign=True)
    return head.eval()


# --- heads as their authors released them ---------------------------------------------------------------------------
# Heads of released checkpoints that are scored and never trained here, beside those of `model.heads`.
#
# B pictures or texts, T texts, N patches, L positions of a text, C codes, K class tokens, H attention heads, D joint
# dim, W width of an image token, V width of a text token, E numbers of a text.


class FiniteTokens(Head):
    """The codebook of FDT and of iterated learning, as released (prototype/model/clip_fdt.py, Query_model).

    It differs from `Codebook`: the start token asks too, and padding answers every code with 0. Patches come
    through their query's layer norm and first matrix, tokens through ln_final alone (`author_layouts`).
    """

    kind = "finite_tokens"
    needs_tokens = True
    temperature: Tensor

    def __init__(self, width: int, codes: int, context: int) -> None:
        super().__init__(width=width, codes=codes, context=context)
        self.code = nn.Parameter(torch.zeros(codes, width))
        self.image_bias = nn.Parameter(torch.zeros(width))
        self.image_query = nn.Sequential(nn.GELU(), nn.LayerNorm(width), nn.Linear(width, width))
        self.text_query = query_network(width, width)
        self.register_buffer("temperature", torch.ones(()))

    @in_float32
    def map_images(self, image_BD: Tensor, patch_BND: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that patches ask for."""
        assert patch_BND is not None
        return self._sum_codes(self._answer(self.image_query(patch_BND + self.image_bias)).amax(dim=1))

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return the normalised sum of the codes that a text's tokens ask for, from the start to the end token."""
        assert token_BLD is not None and own_BL is not None
        until_end_BL = own_BL.flip(1).cumsum(dim=1).flip(1) > 0
        answer_BLC = self._answer(self.text_query(token_BLD))
        answer_BC = answer_BLC.masked_fill(~until_end_BL[..., None], -torch.inf).amax(dim=1)
        is_padded_B1 = until_end_BL.sum(dim=1, keepdim=True) < self.options["context"]
        return self._sum_codes(torch.where(is_padded_B1, answer_BC.clamp_min(0), answer_BC))

    def _answer(self, query_BLD: Tensor) -> Tensor:
        """Return how well each position fits each code."""
        return query_BLD @ self.code.T / (self.code.shape[1] ** 0.5 * self.temperature)

    def _sum_codes(self, answer_BC: Tensor) -> Tensor:
        return F.normalize(sparsemax(answer_BC) @ self.code, dim=-1)


class MixedTokens(Head):
    """Llip's mixture of a picture's class tokens, by attention with the text as its query (released code: xAttnPred).

    A picture is its class tokens (`model.class_tokens`), each with a key map and a value map of its own. A text is E
    numbers: its unit vector, its query, and a 1, so that a mean of texts, however scaled, still tells the mean query.
    """

    kind = "mixed_tokens"
    needs_tokens = True
    scores_pairs = True

    def __init__(
        self, width: int, tokens: int, token_width: int, text_width: int, heads: int, temperature: int
    ) -> None:
        sizes = {"width": width, "tokens": tokens, "token_width": token_width, "text_width": text_width}
        super().__init__(**sizes, heads=heads, temperature=temperature)
        check_split(width, heads)
        self.key = nn.Parameter(torch.zeros(tokens, token_width, width))
        self.value = nn.Parameter(torch.zeros(tokens, token_width, width))
        self.query = nn.Parameter(torch.zeros(text_width, width))
        self.text_projection = nn.Parameter(torch.zeros(text_width, width))
        self.out = nn.Parameter(torch.zeros(width, width))

    @property
    def text_numbers(self) -> int:
        """Texts are compared by their unit vectors."""
        return self.options["width"]

    @in_float32
    def map_texts(self, text_BD: Tensor, token_BLD: Tensor | None = None, own_BL: Tensor | None = None) -> Tensor:
        """Return [B, E] of texts, from the end token behind ln_final."""
        assert token_BLD is not None and own_BL is not None
        end_B = own_BL.shape[1] - 1 - own_BL.flip(1).int().argmax(dim=1)
        end_BV = token_BLD[torch.arange(len(end_B), device=end_B.device), end_B]
        text_BD = F.normalize(end_BV @ self.text_projection, dim=-1)
        return torch.cat([text_BD, end_BV @ self.query, torch.ones_like(text_BD[:, :1])], dim=1)

    @in_float32
    def score(self, patch_BKW: Tensor, text_TE: Tensor) -> Tensor:
        """Return the cosines of pictures, as texts mix their tokens, with these texts; the tokens stand for patches."""
        D = self.options["width"]
        text_TD = text_TE[:, :D]
        query_TD = text_TE[:, D : 2 * D] / text_TE[:, 2 * D :]
        maps = (self.key, self.value, self.out)
        mixed_BTD = mix_tokens(patch_BKW, query_TD, *maps, self.options["heads"], self.options["temperature"])
        return torch.einsum("btd,td->bt", mixed_BTD, F.normalize(text_TD, dim=-1))


ALL_KINDS: dict[str, Callable[..., Head]] = KINDS | {head.kind: head for head in (FiniteTokens, MixedTokens)}
