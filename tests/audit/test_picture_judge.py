"""Judges that see the pictures: how many texts are as true as the caption, by vectors, by pairs and by a checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from compclip.audit import __main__ as command
from compclip.audit import picture_judge, rule_audit
from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.data.sample import Sample
from compclip.evaluate import foreign_models, vqa
from compclip.interface.views import Views
from compclip.text.annotation import Annotation
from tests.conftest import ROOT
from tests.evaluate.test_evaluate import checkpoint, root  # noqa: F401
from tests.evaluate.test_foreign_models import ColourModel, PairModel
from tests.prepared_set import prepared

SHOWN = ("red", "green", "blue", "red")
SAID = ("red", "green", "blue", "blue")  # of the last picture the caption is wrong


def blue(annotation, rng):
    """Say blue: of the third picture the caption itself, of the fourth as true as a caption that says so."""
    return None if "blue" in annotation.text else annotation.text.replace("red", "blue").replace("green", "blue")


def white(annotation, rng):
    return annotation.text.replace("blue", "white") if "blue" in annotation.text else "a red thing"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Four pictures of one colour each, and a fifth that cannot be read."""
    monkeypatch.chdir(tmp_path)
    for number, colour in enumerate(SHOWN):
        Image.new("RGB", (8, 8), colour).save(f"{number}.png")
    samples = [Sample(f"s{i}", f"{i}.png", (), width=8, height=8) for i in range(5)]
    texts = [f"a {colour} thing" for colour in (*SAID, "red")]
    annotations = [[Annotation(text, sentences=((0, len(text)),))] for text in texts]
    prepared(tmp_path / "data/scenes", samples, annotations)
    views = Views(negatives=(blue, white), caption="full")
    monkeypatch.setattr(grid, "first_views", lambda method, config: views)
    return tmp_path


def audit(judge, root):  # noqa: F811
    params = read.load_params(ROOT / "params.yaml")
    return rule_audit.audit_data(params, "scenes", ["negclip"], root, judge=judge).rules


@pytest.mark.parametrize("model", [ColourModel(), PairModel()], ids=["vectors", "pairs"])
def test_texts_are_counted_by_what_the_picture_shows(model, project, monkeypatch):
    """Of three readable pictures with another colour none, and of the wrong caption the one that says what is there."""
    monkeypatch.setattr(foreign_models, "load_model", lambda loader, ref, device: model)
    to_blue, to_white = audit(picture_judge.open_judge("somewhere", "colours", "cpu"), project)
    assert (to_blue.judged.texts, to_blue.judged.at_least) == (2, 0.0)
    # green -> red is further off; blue -> white: of the blue picture no, of the red one, whose caption says blue, yes
    assert (to_white.judged.texts, to_white.judged.at_least) == (3, pytest.approx(1 / 3))
    assert to_white.judged.led_by["0"] == to_white.judged.at_least <= to_white.judged.led_by["0.05"]


def test_a_generative_model_is_asked_for_pairs(project, monkeypatch):
    """By URL::NAME or folder, with the key's variable; each different pair once."""
    opened_models = []

    def open_scorer(model, device, words, how, api_key_env):
        opened_models.append((model, api_key_env))
        return (lambda pairs: foreign_models._pair_scores(PairModel(), how)(pairs)), {}

    monkeypatch.setattr(vqa, "open_scorer", open_scorer)
    _, to_white = audit(picture_judge.open_judge("http://x::m", "vqascore", "cpu", "KEY"), project)
    assert to_white.judged.at_least == pytest.approx(1 / 3) and opened_models == [("http://x::m", "KEY")]


def test_a_model_that_fails_is_one_line(project, monkeypatch):
    class Broken(ColourModel):
        def encode_texts(self, texts):
            raise RuntimeError("no such\nlayer")

    monkeypatch.setattr(foreign_models, "load_model", lambda loader, ref, device: Broken())
    with pytest.raises(UserError, match="Broken: RuntimeError: no such layer; mend that model"):
        audit(picture_judge.open_judge("somewhere", "colours", "cpu"), project)


def test_page_table_and_json_by_a_checkpoint(checkpoint, project, capsys):  # noqa: F811
    """A small open_clip model: its share in table, page and JSON; without it no such column."""
    arguments = ["scenes", "--params", str(ROOT / "params.yaml"), "--method", "negclip"]
    assert command.main([*arguments, "--judge", str(checkpoint), "--device", "cpu"]) == 0
    assert "judged true" in capsys.readouterr().out
    page = (project / "audits/scenes/index.html").read_text()
    assert "judged true" in page and "The caption&#39;s score" not in page and "(of 3 texts)" in page
    document = json.loads((project / "audits/scenes/audit.json").read_text())
    assert document["judge"] == str(checkpoint)
    assert [rule["judged"]["texts"] for rule in document["rules"]] == [2, 3]
    assert command.main(arguments) == 0
    assert "judged true" not in capsys.readouterr().out


def red(annotation, rng):
    """The caption and a foil that says red; none of green things."""
    return (annotation.text, None if "green" in annotation.text else "a red thing")


def nothing(annotation, rng):
    return None


def test_foils_are_judged_beside_their_parts(project, monkeypatch):
    """Of five parts the third and fourth have a foil that says something else; that of the fourth is right."""
    monkeypatch.setattr(grid, "first_views", lambda *_: Views(pairs=(red, nothing), caption="full"))
    monkeypatch.setattr(foreign_models, "load_model", lambda *_: ColourModel())
    foils, none = audit(picture_judge.open_judge("somewhere", "colours", "cpu"), project)
    assert (foils.role, foils.rule, foils.texts, foils.coverage) == ("foil", "test_picture_judge.red", 2, 0.4)
    assert foils.samples == [("a blue thing", "a red thing")] * 2
    assert (foils.judged.texts, foils.judged.at_least) == (2, 0.5)
    assert (none.texts, none.coverage, none.judged) == (0, 0.0, None)


def both(first, second, _count, _rng, _common, _ends):
    """A composite's caption, and a negative that says the first half alone."""
    return [f"{first[0].text} and {second[0].text}"], first[0].text


def test_composites_are_judged_with_their_joined_pictures(project, monkeypatch):
    """The judge sees a square with the colours of both halves; one with the picture that cannot be read is left out."""
    views = Views(composite=1, compose=both, partner="random", caption="full")
    monkeypatch.setattr(grid, "first_views", lambda *_: views)
    seen, pairs = {}, []

    def count_colours(picture_texts):
        pairs.extend(picture_texts)
        for ref in {ref for ref, _ in picture_texts if Path(ref).is_file()}:
            with Image.open(ref) as picture:
                corners = [picture.getpixel((x, y)) for x, y in ((10, 10), (picture.width - 10, picture.height - 10))]
                seen[ref] = picture.size, {("red", "green", "blue")[max(range(3), key=c.__getitem__)] for c in corners}
        return {(ref, text): sum(c in text for c in seen[ref][1]) for ref, text in picture_texts if ref in seen}

    (composites,) = audit(count_colours, project)
    assert composites.texts == 5 and composites.judged.texts == len(seen) < 5
    assert {size for size, _ in seen.values()} == {(448, 448)} and not any(Path(ref).exists() for ref in seen)
    leads = [len(colours & {*caption.split()}) - len(colours & {*text.split()}) for (ref, caption), (_, text) in
             zip(pairs[::2], pairs[1::2], strict=True) if (colours := seen.get(ref, ("", set()))[1])]  # fmt: skip
    assert composites.judged.at_least == pytest.approx(sum(lead <= 0 for lead in leads) / len(leads))


def test_what_is_not_judged(project):
    """Texts without a picture that can be read; a picture of a tar is named by its bytes."""
    pair = ("a red thing", "a blue thing")
    assert picture_judge.compare_texts({}, ["4.png"], [pair]) is None
    sample = replace(Sample("a", "x.tar", ()), offset=512, length=9)
    assert picture_judge.picture_reference(sample) == "x.tar#bytes=000000000512,9"


def test_mistakes_name_the_fix(project):
    arguments = ["scenes", "--params", str(ROOT / "params.yaml")]
    with pytest.raises(UserError, match="--loader blip_itm: opens a model; name it with --judge MODEL"):
        command.main([*arguments, "--loader", "blip_itm"])
    with pytest.raises(UserError, match="nowhere"):
        command.main([*arguments, "--judge", "nowhere", "--device", "cpu"])
