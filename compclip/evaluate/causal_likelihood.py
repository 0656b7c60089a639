"""Score texts by a causal language model of transformers: log likelihood, without any picture.

B texts of a batch, T tokens, V tokens known.

The model is a local folder; nothing is fetched. A text begins behind the model's own start token, where it has one
(else behind its end token), and its end counts. Computed in float32 on the CPU, texts of similar length together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compclip.base.progress_line import ProgressLine
from compclip.evaluate.models import _transformers_folder

BATCH = 64


def score_texts(folder: str, texts: Sequence[str]) -> list[float]:
    """Return the log likelihood of every text in nats. Raises UserError for a folder that holds no such model."""
    import torch

    model, tokenizer = _transformers_folder.open_folder(folder, "AutoModelForCausalLM", "cpu")
    start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    rows = [[start, *tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in texts]
    order, scores = sorted(range(len(rows)), key=lambda i: len(rows[i])), [0.0] * len(rows)
    with torch.inference_mode(), ProgressLine("texts", len(rows)) as progress:
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            for index, score in zip(batch, _score_batch(model, [rows[i] for i in batch]), strict=True):
                scores[index] = score
            progress.update(len(batch))
    return scores


def _score_batch(model: Any, rows: Sequence[Sequence[int]]) -> list[float]:
    """Return the log likelihood of each row of tokens behind its first; shorter rows are padded and masked."""
    import torch

    length_B = torch.tensor([len(row) for row in rows])
    ids_BT = torch.tensor([[*row, *[0] * (int(length_B.max()) - len(row))] for row in rows])
    mask_BT = torch.arange(ids_BT.shape[1]) < length_B[:, None]
    log_BTV = model(input_ids=ids_BT, attention_mask=mask_BT.long()).logits.float().log_softmax(-1)
    next_BT = log_BTV[:, :-1].gather(-1, ids_BT[:, 1:, None]).squeeze(-1).double()
    return list((next_BT * mask_BT[:, 1:]).sum(1).tolist())
