"""SVO-Probes: the official table, the sentence's choice between two pictures, rows of one kind only."""

import pytest

from compclip.benchmarks import svo_probes

HEADER = "sentence,pos_triplet,neg_triplet,pos_url,neg_url,pos_image_id,neg_image_id,subj_neg,verb_neg,obj_neg"
SUBJECT, VERB, OBJECT = "True,False,False", "False,True,False", "False,False,True"


def row(flags: str, pos: object = 1, neg: object = 2, sentence: str = '"A man, on a horse."') -> str:
    return f'{sentence},"man,ride,horse","man,pet,horse",http://a/x.jpg,http://a/y.jpg,{pos},{neg},{flags}'


@pytest.fixture
def write(dump):
    return lambda *lines: dump("svo/svo_probes.csv", "\n".join((HEADER, *lines)) + "\n").parent


@pytest.fixture
def embedded(tmp_path, embeddings):
    images = {tmp_path / f"svo/{i}.jpg": vector for i, vector in ((1, [0.9, 0.1]), (2, [0.4, 0.1]), (3, [0.9, 0.3]))}
    return embeddings(images, {"A man, on a horse.": [1, 0]}, {tmp_path / "svo/4.jpg": "missing"})


def test_kinds_and_their_mean(write, embedded):
    verbs = (row(VERB), row(VERB, 2, 1), row(VERB, 2, 1), row(VERB, 1, 3))
    result = svo_probes.load(write(row(SUBJECT), *verbs, row(OBJECT, 2, 1), row(OBJECT))).score(embedded)
    assert (result.metrics["subj_neg"], result.metrics["verb_neg"], result.metrics["obj_neg"]) == (1, 0.25, 0.5)
    assert result.items["verb_neg"].values.tolist() == [1, 0, 0, 0], "the last is a tie, which is wrong"
    assert result.items["verb_neg"].ids == ("1", "2", "3", "4"), "the place in the table"
    assert result.metrics["average"] == pytest.approx((1 + 0.25 + 0.5) / 3)


def test_rows_that_differ_in_no_part_or_several_are_counted_and_left_out(write, embedded):
    folder = write(row(SUBJECT), row("True,True,False"), row("False,False,False"), row("TRUE,FALSE,FALSE", 2, 1))
    result = svo_probes.load(folder).score(embedded)
    assert result.items["subj_neg"].ids == ("0", "3") and result.metrics == {"subj_neg": 0.5}
    assert (result.counts["records"], result.counts["not_one_kind"]) == (2, 2)


def test_pictures_and_kinds_asked_for(write, picture, tmp_path):
    folder = write(row(SUBJECT), row(VERB, 5, 6), row(OBJECT, 7, 8))
    inside = picture("svo/images/1.png").parent
    assert svo_probes.load(folder, split="verb_neg").images == [str(inside / "5.jpg"), str(inside / "6.jpg")]
    elsewhere = svo_probes.load(folder, images=tmp_path, split="obj_neg").images
    assert elsewhere == [str(tmp_path / "7.jpg"), str(tmp_path / "8.jpg")]
