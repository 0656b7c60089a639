"""The terms of methods of 2024 to 2026, written from the equations in loops over scalars (`tests.reference`)."""

import torch
from torch import Tensor

from tests import reference
from tests.methods.field_terms import lse, negclip, nothing
from tests.reference import dot, log_share, mean, unit


def labclip_terms(f, cfg, step):
    """NegCLIP's contrast with A t in the place of each text."""

    def mapped(texts: Tensor) -> Tensor:
        return torch.stack([mapped_by(f.heads, text) for text in texts.flatten(0, -2)]).reshape(texts.shape)

    texts, scale = (mapped(f.text_BD), mapped(f.negative_BKD)), f.heads.log_scale.exp()
    return {"negclip": reference.negclip(f.image_BD, *texts, f.mask_BK, scale)}


def layer_norm(x: Tensor, layer) -> Tensor:
    centred = x - mean(list(x))
    return centred / (mean([c * c for c in centred]) + layer.eps).sqrt() * layer.weight + layer.bias


def attended(query: Tensor, keys: list[Tensor], values: list[Tensor], heads: int, temperature: float) -> Tensor:
    """Values weighed by the softmax of their keys' products with a query, head by head."""
    parts, width = [], len(query) // heads
    for h in range(heads):
        head_slice = slice(h * width, (h + 1) * width)
        weights = [(dot(query[head_slice], key[head_slice]) / temperature).exp() for key in keys]
        parts.append(sum(w * v[head_slice] for w, v in zip(weights, values, strict=True)) / sum(weights))
    return torch.cat(parts)


def pooled(head, patches: Tensor, text: Tensor) -> Tensor:
    """One picture's patches as one text sees them: multi-head attention by hand, with a key and value of zeros."""
    D, H = len(text), head.options["heads"]
    q = layer_norm(text * D**0.5, head.norm_query)
    keys = [layer_norm(p, head.norm_key) for p in patches]
    values = [layer_norm(p, head.norm_value) for p in patches]
    projections, biases = head.attention.in_proj_weight.chunk(3), head.attention.in_proj_bias.chunk(3)
    q = projections[0] @ q + biases[0]
    keys = [*(projections[1] @ k + biases[1] for k in keys), torch.zeros(D, dtype=text.dtype)]
    values = [*(projections[2] @ v + biases[2] for v in values), torch.zeros(D, dtype=text.dtype)]
    seen = attended(q, keys, values, H, (D / H) ** 0.5)
    return unit(head.attention.out_proj.weight @ seen + head.attention.out_proj.bias)


def flair_terms(f, cfg, step):
    """Eq. 4 and 6; a picture meets all of its own texts and one of each other picture."""
    B, K = len(f.image_BD), cfg.texts
    captions = [] if cfg.draw == "released" else [True]
    there = [[*captions, *(bool(x) for x in row)] for row in f.positive_mask_BP]
    texts = [[*(f.text_BD[i] for _ in captions), *f.positive_BPD[i]] for i in range(B)]
    conditioned = []
    for i in range(B if cfg.lambda_conditioned else 0):
        meets = [(texts[i][k], True) for k in range(K) if there[i][k]]
        for j in range(B):
            k = (i + j + step) % K
            if j != i:
                meets.append((texts[j][k if there[j][k] else 0], False))
        pairs = [reference.sigmoid_pair(f.scale * dot(pooled(f.heads, f.patch_BND[i], t), t) + f.bias, is_positive)
                 for t, is_positive in meets]  # fmt: skip
        conditioned.append(mean(pairs))
    terms = {"conditioned": cfg.lambda_conditioned * sum(conditioned)} if conditioned else {}
    if cfg.lambda_global:
        every = [(texts[j][k], j) for j in range(B) for k in range(K) if there[j][k]]
        owner = torch.tensor([j for _, j in every])
        total = reference.sigmoid(f.image_BD, torch.stack([t for t, _ in every]), owner, f.scale, f.bias)
        terms["global"] = cfg.lambda_global * total
    return terms


def mixture(head, tokens: Tensor, text: Tensor) -> Tensor:
    """One picture's tokens as one text mixes them, number by number and head by head."""
    D, K = len(text), len(tokens)
    query = torch.stack([dot(text * D**0.5, head.query[:, d]) for d in range(D)])
    keys = [torch.stack([dot(tokens[k], head.key[k, :, d]) for d in range(D)]) for k in range(K)]
    values = [torch.stack([dot(tokens[k], head.value[k, :, d]) for d in range(D)]) for k in range(K)]
    mixed = attended(query, keys, values, head.options["heads"], head.options["temperature"])
    return unit(torch.stack([dot(mixed, head.out[:, d]) for d in range(D)]))


def llip_terms(f, cfg, step):
    """Each picture, as each text of the batch mixes it, with this text; a sum over texts, the mean over pictures."""
    pairs = [reference.sigmoid_pair(f.scale * dot(mixture(f.heads, tokens, text), text) + f.bias, i == j)
             for i, tokens in enumerate(f.patch_BND) for j, text in enumerate(f.text_BD)]  # fmt: skip
    return {"sigmoid": sum(pairs) / len(f.text_BD)}


def cs_clip_terms(f, cfg, step):
    """The caption by NegCLIP's contrast; each unit among the batch's at its place and its own foil."""
    first, B, s = int(cfg.negatives), len(f.image_BD), f.scale
    caption_negatives = f.negative_BKD[:, :first], f.mask_BK[:, :first]
    terms = {"caption": reference.negclip(f.image_BD, f.text_BD, *caption_negatives, s)}
    if not cfg.lambda_units:
        return terms
    places = []
    for u in range(cfg.units):
        unit_rows = [i for i in range(B) if f.positive_mask_BP[i, u] and f.mask_BK[i, first + u]]
        rows = []
        for place, i in enumerate(unit_rows):
            scores = [s * dot(f.image_BD[i], f.positive_BPD[j, u]) for j in unit_rows]
            foil = s * dot(f.image_BD[i], f.negative_BKD[i, first + u])
            back = [s * dot(f.positive_BPD[i, u], f.image_BD[j]) for j in unit_rows]
            rows.append((-log_share([*scores, foil], place) - log_share(back, place)) / 2)
        places.append(mean(rows) if rows else nothing(f))
    return terms | {"units": cfg.lambda_units * mean(places)}


def ahnpl_terms(f, cfg, step):
    """Margins of the step before; a caption and an image told from the batch's negatives of their modality."""
    B, K = f.mask_BK.shape
    s, terms, led = f.scale, {"negclip": negclip(f)}, nothing(f)
    places = [(i, k) for i in range(B) for k in range(K)]
    for i, k in places:
        if f.mask_BK[i, k]:
            short = s * dot(f.image_BD[i], f.negative_BKD[i, k]) - s * dot(f.image_BD[i], f.text_BD[i])
            led = led + (f.memory["margin_K"][k] + short).clamp_min(0)
    if cfg.lambda_margin:
        terms["margin"] = cfg.lambda_margin * led / (B * K)
    if not cfg.lambda_negative:
        return terms
    texts = {(i, k): f.negative_BKD[i, k] for i, k in places if f.mask_BK[i, k]}
    images = {(i, k): f.image_BD[i] + (n - f.text_BD[i]).detach() for (i, k), n in texts.items()}
    total = nothing(f)
    for queries, negatives in ((f.text_BD, texts), (f.image_BD, images)):
        rows = []
        for i in range(B):
            against = {place: s * dot(queries[i], n) for place, n in negatives.items()}
            right = places[i] if cfg.answer == "released" else None
            if right in against:
                rows.append(lse(list(against.values())) - against[right])
            elif cfg.answer == "pair":
                pair = s * dot(f.image_BD[i], f.text_BD[i])
                rows.append(lse([pair, *against.values()]) - pair)
        total = total + (mean(rows) if rows else 0)
    return terms | {"negative": cfg.lambda_negative * total}


def superclip_terms(f, cfg, step):
    """Words weighed by the log of the inverse frequency; cross entropy with their shares."""
    terms = {"clip": reference.clip(f.image_BD, f.text_BD, f.scale)}
    if not cfg.lambda_words:
        return terms
    B, norm, linear = len(f.image_BD), f.heads[0], f.heads[1]
    words = [sorted({int(x) for x in row if x >= 0}) for row in f.named["target"].values]
    batches, rows = float(f.memory["batches"]) + 1, []
    for i in range(B):
        weights = []
        for v in words[i]:
            frequency = float(f.memory["frequency_V"][v]) + sum(v in other for other in words) / B
            weights.append(torch.tensor((batches + 1 / B) / (frequency + 1 / B)).log())
        logits = linear.weight @ layer_norm(mean(list(f.patch_BND[i])), norm) + linear.bias
        log_p = logits - logits.exp().sum().log()
        total = sum(abs(w) for w in weights)
        rows.append(-sum(w / total * log_p[v] for w, v in zip(weights, words[i], strict=True)))
    return terms | {"words": cfg.lambda_words * mean(rows)}


def simplex_point(x: Tensor) -> Tensor:
    """The nearest point of the simplex: the threshold by bisection, since the sum falls as it rises."""
    low, high = x.min() - 1, x.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (x - middle).clamp_min(0).sum() > 1 else (low, middle)
    support = x > high.detach()
    return torch.where(support, x - (x[support].sum() - 1) / support.sum(), torch.zeros_like(x))


def coded(head, network, tokens: list[Tensor]) -> Tensor:
    """The unit sum of codes that tokens ask for."""
    first, linear, _, second, last = network
    scale = head.code.shape[1] ** 0.5 * head.temperature
    answers = []
    for token in tokens:
        hidden = torch.nn.functional.gelu(linear.weight @ layer_norm(token, first) + linear.bias)
        query = last.weight @ layer_norm(hidden, second) + last.bias
        answers.append(torch.stack([dot(query, code) / scale for code in head.code]))
    best = torch.stack(answers).max(dim=0).values if answers else torch.zeros(len(head.code), dtype=head.code.dtype)
    return unit(sum(w * code for w, code in zip(simplex_point(best), head.code, strict=True)))


def codebook_clip_terms(f, cfg, step):
    """CLIP's contrast of sums of codes."""
    images = [coded(f.heads, f.heads.image_query, list(patches)) for patches in f.patch_BND]
    texts = [coded(f.heads, f.heads.text_query, [t for t, is_own in zip(tokens, token_mask, strict=True) if is_own])
             for tokens, token_mask in zip(f.token_BTD, f.token_mask_BT, strict=True)]  # fmt: skip
    return {"clip": reference.clip(torch.stack(images), torch.stack(texts), f.scale)}


def pairs_of(a: list[Tensor], b: list[Tensor], scale: Tensor) -> Tensor:
    """CLIP's contrast of these pairs alone; 0 where there is none."""
    rows = [-log_share([scale * dot(x, y) for y in b], i) for i, x in enumerate(a)]
    columns = [-log_share([scale * dot(y, x) for x in a], i) for i, y in enumerate(b)]
    return (mean(rows) + mean(columns)) / 2


def regions_there(f) -> list[tuple[int, int]]:
    return [(i, r) for i, row in enumerate(f.named["regions"].mask) for r, there in enumerate(row) if there]


def fineclip_terms(f, cfg, step):
    """Pictures and captions, regions and their captions, regions and their crops."""
    places = regions_there(f)
    terms = {"clip": pairs_of(list(f.image_BD), list(f.text_BD), f.scale)}
    if cfg.lambda_regions:
        regions = [f.named["regions"].values[p] for p in places]
        texts = [f.named["region_texts"].values[(*p, 0)] for p in places]
        terms["regions"] = cfg.lambda_regions * (pairs_of(regions, texts, f.scale) if places else nothing(f))
    if cfg.lambda_distill:
        crops = f.named["region_crops"].values
        apart = [1 - dot(f.named["regions"].values[p], crops[p]) for p in places]
        terms["distill"] = cfg.lambda_distill * (mean(apart) if places else nothing(f))
    return terms


def captions_and_pictures(f, texts: list[Tensor], cfg) -> Tensor:
    if cfg.contrast == "softmax":
        return pairs_of(list(f.image_BD), texts, f.scale)
    return reference.sigmoid(f.image_BD, torch.stack(texts), torch.arange(len(texts)), f.scale, f.bias)


def mapped_by(linear, text: Tensor) -> Tensor:
    return unit(torch.stack([dot(row, text) for row in linear.weight]))


def hard_regions(f, cfg) -> list[tuple[Tensor, Tensor, list[Tensor]]]:
    """Vector, first caption and false texts of each region that has false texts."""
    regions = []
    for i, r in regions_there(f):
        texts = [mapped_by(f.heads.region, t) if cfg.map_regions else t for t in f.named["region_texts"].values[i, r]]
        false_texts = [t for t, there in zip(texts[2:], f.named["region_texts"].mask[i, r, 2:], strict=True) if there]
        if false_texts:
            regions.append((f.named["regions"].values[i, r], texts[1], false_texts))
    return regions


def fg_clip_terms(f, cfg, step):
    """Pictures with short and long captions; regions with captions and false texts; captions of regions."""
    terms = {"short": captions_and_pictures(f, reference.rewritten(f), cfg)}
    if cfg.lambda_long:
        long = [mapped_by(f.heads.long, t) for t in f.named["raw_captions"].values]
        terms["long"] = cfg.lambda_long * captions_and_pictures(f, long, cfg)
    places = regions_there(f)
    captions = [f.named["region_texts"].values[(*p, 0)] for p in places]
    captions = [mapped_by(f.heads.region, t) for t in captions] if cfg.map_regions else captions
    if cfg.lambda_regions:
        regions, scale = [f.named["regions"].values[p] for p in places], f.heads.log_scale_regions.exp()
        terms["regions"] = cfg.lambda_regions * (pairs_of(regions, captions, scale) if places else nothing(f))
    if cfg.lambda_texts:
        rows = []
        for i, t in enumerate(captions):
            cosines = [dot(t, u) for u in captions]
            other_cosines = [0 * c if i == j or c > cfg.like else c for j, c in enumerate(cosines)]
            rows.append(lse(sorted(other_cosines, key=lambda x: x.item(), reverse=True)[: cfg.nearest]))
        terms["texts"] = cfg.lambda_texts * (mean(rows) if rows else nothing(f))
    return terms | fg_clip_false_texts(f, cfg)


def fg_clip_false_texts(f, cfg):
    if not (cfg.lambda_choice or cfg.lambda_hard or cfg.lambda_rank):
        return {}
    s, hard = f.heads.log_scale_hard.exp(), hard_regions(f, cfg)
    choice, contrast, rank = [], [], []
    captions, every_false = [caption for _, caption, _ in hard], [t for *_, false_texts in hard for t in false_texts]
    for n, (region, caption, false_texts) in enumerate(hard):
        choice.append(-log_share([s * dot(region, t) for t in [caption, *false_texts]], 0))
        to_text = -log_share([s * dot(region, t) for t in [*captions, *every_false]], n)
        contrast.append((to_text - log_share([s * dot(caption, v) for v, _, _ in hard], n)) / 2)
        rank += [(f.memory["margin"] + s * dot(region, t) - s * dot(region, caption)).clamp_min(0) for t in false_texts]
    values = {"choice": choice, "hard": contrast, "rank": rank}
    return {name: getattr(cfg, f"lambda_{name}") * (mean(v) if v else nothing(f))
            for name, v in values.items() if getattr(cfg, f"lambda_{name}")}  # fmt: skip


def clip_in_terms(f, cfg, step):
    """L_short + L_long + L_HN; a sample without an edited picture and caption has no part in the last."""
    s, short = f.scale, reference.rewritten(f)
    terms = {"short": reference.clip(f.image_BD, torch.stack(short), s)}
    if cfg.lambda_long:
        terms["long"] = cfg.lambda_long * reference.clip(f.image_BD, f.text_BD, s)
    if not cfg.lambda_negative:
        return terms
    edited = [i for i, there in enumerate(f.named["negative_images"].mask[:, 0] & f.mask_BK[:, 0]) if there]
    text = short if cfg.edited == "first" else f.text_BD
    source, target = (f.image_BD, text), (f.named["negative_images"].values[:, 0], f.negative_BKD[:, 0])
    total = nothing(f) + 0 * f.named["negative_images"].values.sum()
    for query, key, foil in ((source[0], source[1], target[1]), (target[0], target[1], source[1]),
                             (source[1], source[0], target[0]), (target[1], target[0], source[0]))[: 4 if cfg.symmetric else 2]:  # fmt: skip
        rows = []
        for place, i in enumerate(edited):
            keys = [s * dot(query[i], key[j]) for j in edited]
            foils = [s * dot(query[i], foil[j]) for j in edited]
            back = [s * dot(key[i], query[j]) for j in edited]
            rows.append((-log_share([*keys, *foils], place) - log_share(back, place)) / 2)
        total = total + (mean(rows) if rows else 0)
    return terms | {"negative": cfg.lambda_negative * total}


TERMS = {
    "ahnpl": ahnpl_terms, "clip_in": clip_in_terms, "codebook_clip": codebook_clip_terms, "cs_clip": cs_clip_terms,
    "fg_clip": fg_clip_terms, "fineclip": fineclip_terms, "flair": flair_terms, "il_clip": codebook_clip_terms,
    "labclip": labclip_terms, "llip": llip_terms, "superclip": superclip_terms,
}  # fmt: skip
SMALL = {"codes": 6, "code_width": 4}
FG_CLIP_2 = {"contrast": "sigmoid", "lambda_regions": 0.2, "lambda_choice": 1.5, "lambda_hard": 0.3, "lambda_rank": 0.2,
             "lambda_texts": 0.1, "map_regions": True, "init_scale": 5.0, "region_negatives": 3}  # fmt: skip
MORE = [
    ("clip_in", {}), ("clip_in", {"symmetric": False, "lambda_negative": 0.5}), ("clip_in", {"lambda_long": 0.0}), ("clip_in", {"edited": "first"}), ("clip_in", {"lambda_long": 0.3, "lambda_negative": 0.0}),
    ("ahnpl", {}), ("ahnpl", {"answer": "pair"}), ("ahnpl", {"lambda_margin": 0.0, "words": "wordnet"}),
    ("codebook_clip", {**SMALL, "temperature": 0.3}), ("codebook_clip", {**SMALL, "temperature": 5.0}),
    ("cs_clip", {}), ("cs_clip", {"negatives": False, "units": 1}), ("cs_clip", {"lambda_units": 0.0}),
    ("flair", {"texts": 3, "heads": 2}), ("flair", {"texts": 1, "heads": 4, "lambda_global": 0.0}), ("flair", {"texts": 2, "lambda_conditioned": 0.0}),
    ("flair", {"texts": 3, "heads": 2, "draw": "released"}), ("flair", {"texts": 1, "heads": 4, "draw": "released"}),
    ("fg_clip", {"init_scale": 5.0, "region_negatives": 3}), ("fg_clip", FG_CLIP_2),
    ("fg_clip", FG_CLIP_2 | {"lambda_choice": 0.0, "nearest": 2, "like": 0.3}), ("fg_clip", {"lambda_choice": 0.0, "lambda_long": 0.0}),
    ("fineclip", {}), ("fineclip", {"lambda_regions": 0.5}), ("fineclip", {"lambda_distill": 0.0}),
    ("il_clip", {**SMALL, "temperature": 0.3}), ("llip", {"tokens": 3, "heads": 2}), ("llip", {"tokens": 2, "heads": 1, "temperature": 1}),
    ("fineclip", {"lambda_regions": 0.0}), ("labclip", {}), ("labclip", {"negatives": False}),
    ("superclip", {"vocabulary": 40}), ("superclip", {"lambda_words": 0.0}),
]  # fmt: skip
