"""Scores of patches and tokens: against loops in float64, and as metrics beside those of cosines."""

import math

import numpy as np
import pytest
import torch

from compclip.base.errors import UserError
from compclip.config import sections, validation
from compclip.config.sections import Scoring
from compclip.evaluate import embed, pair_scorers, score
from compclip.evaluate.embed import PreparedPictures
from compclip.evaluate.embeddings import NoVectorsError
from compclip.model import towers
from tests.evaluate.test_embed import TEXTS, model, pictures  # noqa: F401
from tests.evaluate.test_evaluate import _loaded, checkpoint, params, root  # noqa: F401


def paired(model, pictures, texts, scorer, **how):  # noqa: F811
    """Each picture with its text, scored."""
    scoring = Scoring(scorers=["cosine", scorer], **how)
    embedded = embed.encode(model, pictures, texts, scoring)
    return pair_scorers.score_pairs(embedded, scorer, [model], scoring, PreparedPictures())


def slow(model, path, text):  # noqa: F811
    """Patches and tokens of one pair in float64: unit embedding of the text, the scale."""
    with torch.no_grad():
        pixels = model.pixels([embed.PreparedPictures().prepare(path, model, False)])
        patch_ND = towers.encode_images(model.clip.eval(), pixels, tokens=True)[1][0].double().numpy()
        ids = model.tokenize([text])
        text_1D, token_1TD = towers.encode_texts(model.clip, ids, tokens=True)
    end = int(ids[0].argmax())
    return patch_ND, token_1TD[0, 1 : end + 1].double().numpy(), text_1D[0].double().numpy()


def test_scores_of_pairs_are_no_vectors_of_pictures(model, pictures):  # noqa: F811
    with pytest.raises(NoVectorsError, match="by `matches`, `table` or `ranks`"):
        paired(model, pictures, TEXTS, "local").images(pictures)


def unit(vector):
    """Of length 1."""
    return vector / np.linalg.norm(vector)


def test_local_is_fsc_clips(model, pictures):  # noqa: F811
    texts = TEXTS[: len(pictures)]
    scores = paired(model, pictures, texts, "local").matches(pictures, texts)
    scale = float(model.clip.logit_scale.detach().exp())
    for path, text, value in zip(pictures, texts, scores, strict=True):
        patch_ND, token_TD, _ = slow(model, path, text)
        total = 0.0
        for token_D in token_TD:
            map_N = patch_ND @ token_D
            weight_N = (map_N - map_N.min()) / (map_N.max() - map_N.min())
            total += math.exp(scale * unit(token_D) @ unit((weight_N / weight_N.sum()) @ patch_ND))
        assert value == pytest.approx(math.log(total), rel=1e-4)


def test_attended_is_c2lips(model, pictures):  # noqa: F811
    texts = TEXTS[: len(pictures)]
    scores = paired(model, pictures, texts, "attended").matches(pictures, texts)
    for path, text, value in zip(pictures, texts, scores, strict=True):
        patch_ND, _, text_D = slow(model, path, text)
        unit_ND = np.stack([unit(patch_D) for patch_D in patch_ND])
        weight_N = np.exp(unit_ND @ text_D)
        assert value == pytest.approx(unit((weight_N / weight_N.sum()) @ unit_ND) @ text_D, abs=1e-5)


@pytest.mark.parametrize("scorer", ["local", "attended"])
def test_batches_and_threads_change_nothing_and_pairs_are_scored_once(model, pictures, scorer, monkeypatch):  # noqa: F811
    refs, texts = [ref for ref in pictures for _ in TEXTS], TEXTS * len(pictures)
    expected = paired(model, pictures, TEXTS, scorer, threads=1).matches(refs, texts)
    monkeypatch.setattr(pair_scorers, "BATCH", 4)
    small_batches, batch_calls = paired(model, pictures, TEXTS, scorer, threads=3), []
    assert small_batches.matches(refs, texts) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(pair_scorers, "_batch", lambda *arguments: batch_calls.append(arguments))
    assert small_batches.table(pictures, TEXTS).shape == (len(pictures), len(TEXTS)) and not batch_calls
    i2t_I3, t2i_T3, *_ = small_batches.ranks(pictures, TEXTS[: len(pictures)], np.arange(len(pictures)))
    assert i2t_I3.shape == t2i_T3.shape == (len(pictures), 3)


def test_metrics_stand_beside_the_cosines(checkpoint, params):  # noqa: F811
    """Under their own names; TOT, which looks at no picture, has no other."""
    loaded = score.load_benchmarks(
        params.benchmarks, list(params.benchmarks), Scoring(scorers=["cosine", "local", "attended"])
    )
    one = score.checkpoint_at(str(checkpoint))
    alone, documents = score.score_checkpoint(one, _loaded(params)), score.score_checkpoint(one, loaded)
    plain = {name: {m: v for m, v in d["metrics"].items() if "." not in m} for name, d in documents.items()}
    assert plain == {name: document["metrics"] for name, document in alone.items()}
    assert {"swap_att.local", "swap.attended", "average.local"} <= documents["sugarcrepe"]["metrics"].keys()
    assert documents["sugarcrepe"]["means"]["swap.local"] == ["swap_att.local", "swap_obj.local"]
    assert "swap_att_itt.local" in documents["plus"]["metrics"]
    assert not [metric for metric in documents["plus"]["metrics"] if "tot." in metric]
    assert documents["sugarcrepe"]["how"]["scorers"] == ["cosine", "local", "attended"]


@pytest.mark.parametrize(
    ("scorers", "fault"),
    [
        (["cosine", "locale"], "unknown scorer 'locale'"),
        (["local"], "must begin with cosine"),
        ([], "must begin with cosine"),
        (["cosine", "local", "local"], "name no other twice"),
    ],
)
def test_scorers_that_are_none(scorers, fault):
    with pytest.raises(UserError, match=fault) as error:
        validation.load_section(sections.Evaluate, {"scorers": scorers}, "evaluate")
    assert "evaluate.scorers" in str(error.value)
