"""The losses again as the papers write them: float64, loops over scalars, nothing shared with compclip.losses.

Slow on purpose. Gradients come from autograd through the scalars, so that slopes are compared as well as values.
"""

import torch
from torch import Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Tensor) -> Tensor:
    return a / dot(a, a).sqrt()


def log_share(scores: list[Tensor], index: int) -> Tensor:
    """log softmax of one entry, as log of a ratio."""
    return (scores[index].exp() / sum(s.exp() for s in scores)).log()


def mean(values: list[Tensor]) -> Tensor:
    return sum(values) / len(values)


def clip(image: Tensor, text: Tensor, s: Tensor) -> Tensor:
    terms = []
    for i in range(len(image)):
        terms.append(-log_share([s * dot(image[i], t) for t in text], i))
        terms.append(-log_share([s * dot(v, text[i]) for v in image], i))
    return mean(terms)


def negclip(image: Tensor, text: Tensor, negative: Tensor, mask: Tensor, s: Tensor) -> Tensor:
    valid_negatives = [negative[i, k] for i in range(len(negative)) for k in range(negative.shape[1]) if mask[i, k]]
    to_text = [-log_share([s * dot(v, t) for t in [*text, *valid_negatives]], i) for i, v in enumerate(image)]
    to_image = [-log_share([s * dot(v, t) for v in image], i) for i, t in enumerate(text)]
    return (mean(to_text) + mean(to_image)) / 2


def focal_smoothed(logits: Tensor, mask: Tensor, gamma: float, epsilon: float, zero: Tensor) -> Tensor:
    """`zero` is a 0 with a path to the inputs, for batches without a valid negative."""
    losses = []
    for i in range(len(logits)):
        valid_logits = [logits[i, 0]] + [logits[i, k] for k in range(1, logits.shape[1]) if mask[i, k]]
        if len(valid_logits) == 1:
            continue
        total = 0
        for k in range(len(valid_logits)):
            log_p = log_share(valid_logits, k)
            y = (1 - epsilon) * (1 if k == 0 else 0) + epsilon / len(valid_logits)
            total = total - y * (1 - log_p.exp()) ** gamma * log_p
        losses.append(total)
    return mean(losses) if losses else zero


def s_neg(image: Tensor, text: Tensor, negative: Tensor, mask: Tensor, s: Tensor) -> Tensor:
    losses = []
    for i, v in enumerate(image):
        negative_logits = [s * dot(v, negative[i, k]) for k in range(negative.shape[1]) if mask[i, k]]
        if negative_logits:
            losses.append(-log_share([s * dot(v, text[i]), *negative_logits], 0))
    return mean(losses) if losses else 0 * (image.sum() + text.sum() + negative.sum() + s)


def attention(row: list[float], kind: str) -> list[float]:
    """Weights of one token over patches from its row of the similarity map."""
    if kind == "softmax":
        weights = [torch.tensor(x, dtype=torch.float64).exp().item() for x in row]
    elif max(row) == min(row):
        weights = [1.0] * len(row)
    else:
        weights = [(x - min(row)) / (max(row) - min(row)) for x in row]
        if kind == "minmax_sparse":
            weights = [w if w >= 1 / len(row) else 0.0 for w in weights]
    return [w / sum(weights) for w in weights]


def local_similarity(patch: Tensor, token: Tensor, mask: Tensor, s: Tensor, kind: str) -> Tensor:
    scores = []
    for i in range(len(patch)):
        total = 0
        for w in range(token.shape[1]):
            if mask[i, w]:
                weights = attention([dot(p, token[i, w]).item() for p in patch[i]], kind)
                aligned = unit(sum(a * p for a, p in zip(weights, patch[i], strict=True)))
                total = total + (s * dot(aligned, unit(token[i, w]))).exp()
        scores.append(total.log())
    return torch.stack(scores)


def sigmoid_pair(score: Tensor, is_positive: bool) -> Tensor:
    z = 1 if is_positive else -1
    return -(1 / (1 + (-z * score).exp())).log()


def sigmoid(image: Tensor, text: Tensor, owner: Tensor, s: Tensor, b: Tensor) -> Tensor:
    total = 0 * (image.sum() + s + b)
    for i, v in enumerate(image):
        for j, t in enumerate(text):
            total = total + sigmoid_pair(s * dot(v, t) + b, owner[j] == i)
    return total / max(len(text), 1)


def cross_attended(patch: Tensor, concept: Tensor, owner: Tensor, s: Tensor, b: Tensor) -> Tensor:
    total = 0 * (patch.sum() + s + b)
    for i in range(len(patch)):
        patches = [unit(p) for p in patch[i]]
        for k, c in enumerate(concept):
            weights = [dot(p, c).exp() for p in patches]
            pooled = unit(sum(w * p for w, p in zip(weights, patches, strict=True)) / sum(weights))
            total = total + sigmoid_pair(s * dot(pooled, c) + b, owner[k] == i)
    return total / max(len(concept), 1)


def rewritten(f) -> list[Tensor]:
    """The first valid hard positive of each caption, else the caption."""
    q = []
    for i in range(len(f.text_BD)):
        valid = [f.positive_BPD[i, p] for p in range(f.positive_BPD.shape[1]) if f.positive_mask_BP[i, p]]
        q.append((valid or [f.text_BD[i]])[0])
    return q


def analogy(f) -> Tensor:
    q, rows = rewritten(f), range(len(f.text_BD))
    from_image = [-log_share([f.scale * dot(f.image_BD[i], x) for x in q], i) for i in rows]
    from_text = [-log_share([f.scale * dot(f.text_BD[i], x) for x in q], i) for i in rows]
    return (mean(from_image) + mean(from_text)) / 2
