"""FG-CLIP: long captions have a projection in the place of the text tower's, by which long benchmarks are compared."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from compclip.evaluate import score
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.evaluate.embed import encode
from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.methods import fg_clip
from compclip.model import heads, towers
from compclip.runs.item_outcomes import RETRIEVAL, Items
from compclip.text.annotation import Annotation
from compclip.train import encode as train_encode
from compclip.train import extras
from tests import distributed_check
from tests.evaluate.test_embed import CONFIG
from tests.model.test_towers import make_model

LONG = fg_clip.Config(lambda_regions=0.0, lambda_choice=0.0)
CAPTIONS = ("a cat on a mat", "a dog near a wall")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"), CONFIG)


def test_long_captions_have_a_copy_of_the_text_projection_which_they_train_alone(model):
    """At first the term is that of the tower's vectors, and the tower's projection has no part in its slope."""
    parts = extras.create_extras(load_method("fg_clip"), LONG, model, 0)
    assert torch.equal(parts.heads.long.weight, model.clip.text_projection.T)
    views = Views(raw_captions=True)
    batch = distributed_check.batch(views)
    pixels = F.interpolate(batch.image_B3HW.float(), 16)
    f = train_encode.encode_features(model.clip, replace(batch, image_B3HW=pixels), views)
    f = parts.extend_features(f, None)
    terms = fg_clip.loss(f, LONG, 0)
    torch.testing.assert_close(terms["long"], fg_clip.contrast(f, f.text_BD, LONG))
    weights = [parts.heads.long.weight, model.clip.text_projection, model.clip.ln_final.weight]
    long, projection, norm = torch.autograd.grad(terms["long"], weights, retain_graph=True, allow_unused=True)
    assert not projection.any() and long.any() and norm.any()
    assert torch.autograd.grad(terms["short"], weights, allow_unused=True)[0] is None


def test_benchmarks_of_long_captions_are_compared_by_their_projection(model, tmp_path):
    """And all others by the tower's: of one pass over equal texts."""
    head = heads.LongTexts(16, 32)
    with_head = replace(model, head=head)
    picture = str(tmp_path / "a.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)).save(picture)

    def cosines(records, embeddings):
        return {"cosine": Items(("0", "1"), embeddings.matches([picture] * 2, CAPTIONS))}

    plain = Benchmark((Record("", "0", (picture,), CAPTIONS),), (), cosines, scores=("cosine",), kind=RETRIEVAL)
    scored = score.score_model(with_head, {"short": plain, "long": replace(plain, long_texts=True)})
    embeddings = encode(model, [picture], CAPTIONS)
    with torch.no_grad():
        raw_BW = towers.encode_texts(model.clip, model.tokenize(list(CAPTIONS)), raw=True)[0][:, 16:]
        long_BD = F.normalize(raw_BW @ head.long.weight.T, dim=-1)
    short = embeddings.matches([picture] * 2, CAPTIONS)
    long = long_BD.numpy() @ embeddings.images([picture])[0]
    np.testing.assert_allclose(scored["short"].items["cosine"].values, short, atol=2e-6)
    np.testing.assert_allclose(scored["long"].items["cosine"].values, long, atol=2e-6)
    assert np.abs(short - long).max() > 1e-2


def test_the_short_caption_of_the_program():
    """ "a photo of " is before a stored one; without a stored one there is none."""
    rng, (rule,) = np.random.default_rng(0), fg_clip.views(fg_clip.Config(short="photo"), 0).positives
    assert rule(Annotation("A cat lies on a mat. It sleeps."), rng) is None
    stored = Annotation("A cat lies on a mat. It sleeps.", stored={"paraphrase": ("a sleeping cat",)})
    assert rule(stored, rng) == "a photo of a sleeping cat"
