"""What spaCy and WordNet say about captions, odd ones included."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.text import positives, sentences, shuffle, swap, wordnet
from compclip.text import replace as replacing
from compclip.text import spacy_parser as stage
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationRows
from compclip.text.spacy_parser import annotate, annotate_columns
from tests.text.conftest import SENTENCES, outcomes


def test_tokens_and_spans_of_a_sentence(annotated):
    """Sentences are ours, and bind the parser."""
    a = annotated["A small brown dog is chasing a big black cat."]
    assert " ".join(a.word(t) for t in range(len(a))) == "A small brown dog is chasing a big black cat ."
    assert a.pos[:6] == ("DET", "ADJ", "ADJ", "NOUN", "AUX", "VERB")
    assert a.tag[5] == "VBG" and a.lemma[5] == "chase"
    assert a.chunks == ((0, 4), (6, 10))
    assert a.verbs == ((4, 6),)
    assert a.sentences == ((0, len(a.text)),)
    assert a.heads[0] == 3 and a.heads[5] == 5
    text = "The cup is 3.5 cm tall. Mr. Brown drinks tea."
    (a,) = annotate([text], replacements=False)
    assert [text[slice(*s)] for s in a.sentences] == ["The cup is 3.5 cm tall.", "Mr. Brown drinks tea."]
    second = a.tokens(a.sentences[1])[0]
    assert all((t < second) == (head < second) for t, head in enumerate(a.heads))


def test_candidates_are_capped_and_new(annotated):
    for text, a in annotated.items():
        caption_words = {w.lower() for w in a.text.split()}
        for t, words in enumerate(a.candidates):
            assert len(words) <= wordnet.LIMIT, text
            assert not caption_words & {w.lower() for w in words}
            assert len(set(words)) == len(words)
            assert a.word(t).lower() not in words


def test_an_article_binds_its_noun(annotated):
    a = annotated["A boy eats an apple."]
    assert a.candidates[1] and all(w[0] not in "aeiou" for w in a.candidates[1])
    assert all(w[0] in "aeiou" for w in a.candidates[4])
    first, second = annotate(["The old man sleeps.", "An old man sleeps."])
    assert first.candidates[1] == ("young",) and second.candidates[1] == ()


ODD = (
    "", "  ", "\n\n", "😀", "👩‍👩‍👧 a dog 😀and a cat", "a\ndog\n\nand a cat", "ß İstanbul", "...", "\x00", "http://x.y/?z",
)  # fmt: skip


def alone(text: str) -> Annotation:
    """A caption parsed by itself, told token by token by spaCy's objects."""
    document = next(stage._load_model().pipe([stage._make_document(text, 0, sentences.split(text))], batch_size=1))
    tokens = {name: [getattr(token, f"{name}_") for token in document] for name in ("pos", "tag", "lemma", "dep")}
    tokens |= {"starts": [t.idx for t in document], "ends": [t.idx + len(t) for t in document]}
    tokens |= {"heads": [t.head.i for t in document], "chunks": [(c.start, c.end) for c in document.noun_chunks]}
    return Annotation(text, **{name: tuple(values) for name, values in tokens.items()})


def same_analysis(texts: Sequence[str]) -> bool:
    result = annotate(texts, replacements=False)
    return [replace(a, sentences=(), verbs=(), candidates=()) for a in result] == list(map(alone, texts))


def test_an_annotation_depends_on_its_caption_alone():
    """Not on the captions that are parsed with it."""
    texts = [" ".join(SENTENCES[i : i + 1 + i % 5]) for i in range(len(SENTENCES))]
    assert same_analysis([*texts, *ODD]) and same_analysis([*ODD, *texts[::-1]])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=30) | st.text(st.sampled_from("aA dog.\n'-é😀1!"), max_size=30), max_size=6))
def test_any_text_is_analysed_as_alone(texts):
    assert same_analysis(texts)


def test_columns_are_the_annotations_of_a_shard(annotated):
    """Equal captions once, each in its place, with what a language model made of it."""
    texts, counts = ["A dog.", *SENTENCES, "A dog.", "running quickly"], Counter()

    def add_written_texts(annotation: Annotation) -> Annotation:
        added = {"written_swap": "a", "written_replace": "b"} if annotation.text == "A dog." else {}
        return replace(annotation, **added)

    rows = AnnotationRows(annotate_columns(iter(texts), counts, add_written_texts).array())
    dog = replace(annotate(["A dog."])[0], written_swap="a", written_replace="b")
    of_sentences = [annotated[text] for text in SENTENCES]
    assert [rows[i] for i in range(len(texts))] == [dog, *of_sentences, dog, annotated["running quickly"]]
    assert counts == Counter(captions=len(texts), different=len(texts) - 2, long=0, empty=1, without_noun=5)


def test_a_model_that_met_too_many_words_is_loaded_anew(monkeypatch):
    """And says the same."""
    before, met = annotate_columns(SENTENCES, Counter()), stage._load_model()
    assert stage._load_model() is met
    monkeypatch.setattr(stage, "WORDS_KEPT", 10)
    assert annotate_columns(SENTENCES, Counter()).array() == before.array()
    assert stage._load_model() is not met


def test_odd_captions_survive_all_rules():
    for a in annotate(ODD):
        a.concepts()
        for rule in (swap.negclip, swap.single, replacing.wordnet, shuffle.bigram, positives.replace, positives.swap):
            assert all(text is None or text.casefold() != a.text.casefold() for text in outcomes(rule, a, tries=5))
        outcomes(swap.clic, a, a, tries=5)


def test_long_captions_are_parsed_in_pieces_and_counted(monkeypatch):
    sizes = []
    original = stage._make_document
    monkeypatch.setattr(stage, "_make_document", lambda text, *rest: sizes.append(len(text)) or original(text, *rest))
    monkeypatch.setattr(stage, "PIECE", 300)
    text = "The red dog sees a big cat. " * 30 + "dog " * 150
    a, short = annotate([text, "A dog."], replacements=False)
    assert max(sizes) <= stage.PIECE and sum(sizes) == len(text) + len("A dog.")
    assert "".join(a.word(t) for t in range(len(a))).replace(" ", "") == "".join(text.split())
    assert len(a.sentences) == 31
    assert a.chunks[-1][1] <= len(a) and max(a.heads) < len(a)
    assert short == annotate(["A dog."], replacements=False)[0]
    counts = Counter()
    annotate_columns([text, "A dog."], counts)
    assert (counts["long"], counts["empty"]) == (1, 0)


def test_rules_need_neither_spacy_nor_nltk():
    code = (
        "import sys; from compclip.text import annotation, swap, replace, shuffle, positives; "
        "sys.exit(bool({'spacy', 'nltk', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
