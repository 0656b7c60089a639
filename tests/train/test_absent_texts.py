"""Texts that no rule made are not encoded, and no loss, value or gradient, is another one for it."""

import contextlib
import functools

import numpy as np
import pytest

from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.model import towers
from compclip.train import accumulate, encode
from compclip.train.batch import NEGATIVE, POSITIVE, Batch
from tests import distributed_check


def without_masked(batch: Batch, views: Views) -> Batch:
    """The batch as collation gives it: what is masked is not encoded; composites and bags have all their positives."""
    mask_BP = batch.texts[POSITIVE].mask
    encoded_BP = np.ones(tuple(mask_BP.shape), bool)
    if not (views.composite or any(group.name == "bag" for group in views.groups)):
        encoded_BP = mask_BP.numpy()
    batch = distributed_check.change_texts(batch, POSITIVE, encoded=encoded_BP)
    return distributed_check.change_texts(batch, NEGATIVE, encoded=batch.texts[NEGATIVE].mask.numpy())


def compute(case: tuple, encodes_all: bool, micro: int) -> tuple[dict, dict]:
    """Terms and gradients of a case."""
    name, changes, number = case
    method = load_method(name)
    cfg = method.Config(**changes)
    views = method.views(cfg, number)
    clip, batch = distributed_check.prepare(method, cfg), distributed_check.batch(views)
    method_extras = distributed_check.kept_beside(method, cfg, clip)
    computer = accumulate.GradientComputer(clip, frozenset(), contextlib.nullcontext, micro, method_extras)
    loss = functools.partial(method.loss, cfg=cfg, step=number)
    terms = computer.compute_gradients(batch if encodes_all else without_masked(batch, views), views, loss)
    return terms, {n: p.grad for n, p in [*clip.named_parameters(), *method_extras.parameters()]}


@pytest.mark.parametrize("micro", [0, 2])
@pytest.mark.parametrize("case", distributed_check.CASES, ids=lambda case: f"{case[0]}-{case[2]}")
def test_no_loss_looks_at_masked_texts(case, micro):
    """In float64, a masked text of the batch being any text."""
    difference = distributed_check.difference(*(compute(case, encodes_all, micro) for encodes_all in (True, False)))
    assert difference["terms"] < 1e-12 and difference["gradients"] < 1e-12
    assert difference["one_sided"] == []


def count_rows(monkeypatch, batch: Batch) -> int:
    """How many texts the tower encodes."""
    rows: list[int] = []
    encode_texts = towers.encode_texts

    def count(clip, text_BL, *arguments, **options):
        rows.append(len(text_BL))
        return encode_texts(clip, text_BL, *arguments, **options)

    monkeypatch.setattr(towers, "encode_texts", count)
    views = load_method("negclip").views(load_method("negclip").Config(), 0)
    encode.encode_features(distributed_check.model(bias=False), batch, views)
    return sum(rows)


def test_the_tower_sees_what_is_there(monkeypatch):
    views = load_method("negclip").views(load_method("negclip").Config(), 0)
    batch = distributed_check.batch(views)
    there = len(batch) + sum(int(batch.texts[name].mask.sum()) for name in (NEGATIVE, POSITIVE))
    assert there < count_rows(monkeypatch, batch)
    assert count_rows(monkeypatch, without_masked(batch, views)) == there
