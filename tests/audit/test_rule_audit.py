"""A data set's audit: counts by hand, a table and a JSON; no picture is opened."""

import json

import pytest

from compclip.audit import rule_audit
from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.data.sample import Sample
from compclip.interface.views import Views
from compclip.text.annotation import Annotation
from compclip.text.text_groups import pair
from tests.prepared_set import prepared
from tests.shipped_files import SHIPPED_PARAMS

CAPTIONS = [("a dog runs", "a puppy runs"), ("a cat sleeps",), ("a horse runs",), ("a cow sleeps",), ("a dog sleeps",)]


def annotate(text):
    words = text.split()
    starts = [text.index(word) for word in words]
    ends = tuple(start + len(word) for start, word in zip(starts, words, strict=True))
    return Annotation(text, tuple(starts), ends, ("DET", "NOUN", "VERB"), sentences=((0, len(text)),))


def tenterhook(annotation, rng):
    """Put a word that no caption has in the noun's place; nothing for cows."""
    words = annotation.text.split()
    return None if words[1] == "cow" else f"{words[0]} tenterhook {words[2]}"


def puppy(annotation, rng):
    return annotation.text.replace("dog", "puppy").replace("a puppy", "A  puppy")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Five pictures, the first with two captions; whatever method shows a planted rule, and a positive."""
    samples = [Sample(f"s{i}", f"{i}.png", (), width=8, height=8) for i in range(5)]
    prepared(tmp_path / "data/scenes", samples, [list(map(annotate, captions)) for captions in CAPTIONS])
    views = Views(negatives=(tenterhook,), positives=(puppy,), caption="full")
    monkeypatch.setattr(grid, "first_views", lambda method, config: views)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv):
    return rule_audit.main(["scenes", "--params", str(SHIPPED_PARAMS), "--method", "negclip", *argv])


def test_what_is_counted(project):
    audit = rule_audit.audit_data(read.load_params(SHIPPED_PARAMS), "scenes", ["negclip"], project, 5)
    negative, positive = audit.rules
    assert (negative.role, negative.rule, negative.texts, negative.coverage) == (
        "negative", "test_rule_audit.tenterhook", 4, 0.8,
    )  # fmt: skip
    assert negative.still_true == 0 and negative.recognised == 1.0
    assert len(negative.samples) == 4
    assert positive.role == "positive" and positive.still_true > 0.5


def red(annotation, rng):
    """The caption and a foil that says red; none of cats."""
    return annotation.text, None if "cat" in annotation.text else "a red thing"


def test_foils_stand_beside_their_parts(project, monkeypatch):
    """Of five parts four have a foil; a rule that makes none has a row of its own."""
    views = Views(groups=(pair("red", red), pair("nothing", lambda a, rng: None)), caption="full")
    monkeypatch.setattr(grid, "first_views", lambda *_: views)
    foils, none = rule_audit.audit_data(read.load_params(SHIPPED_PARAMS), "scenes", ["negclip"], project, 5).rules
    assert (foils.role, foils.rule, foils.texts, foils.coverage) == ("foil", "red", 4, 0.8)
    belied_parts = [belied_part for belied_part, _ in foils.samples]
    assert belied_parts[1:] == ["a horse runs", "a cow sleeps", "a dog sleeps"] and belied_parts[0] in CAPTIONS[0]
    assert {text for _, text in foils.samples} == {"a red thing"}
    assert (none.texts, none.coverage) == (0, 0.0)


def test_table_samples_and_json(project, capsys):
    assert run() == 0
    output = capsys.readouterr().out
    assert "negclip: test_rule_audit.tenterhook (negative)" in output and "5 of 5 pictures" in output
    assert "  a cat sleeps\n    a tenterhook sleeps\n" in output
    assert run("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rules"][0]["coverage"] == 0.8 and document["looked_at"] == 5
    assert run("--pictures", "2") == 0 and "2 of 5 pictures" in capsys.readouterr().out


def test_mistakes_name_the_fix(project, monkeypatch):
    with pytest.raises(UserError, match=r"unknown data 'scenery'; did you mean"):
        rule_audit.main(["scenery", "--params", str(SHIPPED_PARAMS)])
    with pytest.raises(UserError, match=r"--pictures 0: must be a whole number above 0"):
        run("--pictures", "0")
    monkeypatch.setattr(grid, "first_views", lambda method, config: Views())
    with pytest.raises(UserError, match=r"scenes: no method shows a text that a rule makes; name one with --method"):
        run()
