"""Captions are cleaned once: what rules see is what a tokenizer reads, and no mark of a tokenizer is left in them."""

from collections import Counter

import open_clip
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.data.sample import Sample
from compclip.evaluate import benchmark_module
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.prepare import sample_cleaning
from compclip.runs.item_outcomes import COMPOSITION
from compclip.text import caption_cleaning
from compclip.text.caption_cleaning import clean_caption

TOKENIZER = open_clip.SimpleTokenizer()
CASES = [
    ("A &quot;red&quot; car &amp; a dog", 'A "red" car & a dog', 1, 0),
    ("I donâ€™t know", "I don't know", 1, 0),
    ("a red\u200b horse\ufeff", "a red horse", 1, 0),
    ("tom &amp;amp;amp;amp; jerry", "tom & jerry", 1, 0),
    ("a dog <end_of_text> on a mat", "a dog end of text on a mat", 0, 1),
    ("a dog <|endoftext|> on a mat", "a dog endoftext on a mat", 0, 1),
    ("a dog &lt;end_of_text&gt; on a mat", "a dog end of text on a mat", 1, 1),
    ("a </s> [SEP] dog", "a s SEP dog", 0, 1),
    ("  two \n lines ", "two lines", 0, 0),
    ("a < b > c [see]", "a < b > c [see]", 0, 0),
    ("a family 👨\u200d👩\u200d👧", "a family 👨\u200d👩\u200d👧", 0, 0),
]


@pytest.mark.parametrize(("text", "expected", "cleaned", "marks"), CASES)
def test_a_caption_by_hand(text, expected, cleaned, marks):
    counts = Counter()
    assert clean_caption(text, counts) == expected
    assert (counts["cleaned_captions"], counts["special_tokens"]) == (cleaned, marks)


@given(st.text(st.sampled_from("ab &;<>|_/[]ltgquoampendoftxsSEP\u200b\ufeffâ€™é'\" ")) | st.text())
def test_a_clean_caption_stays_as_it_is(text):
    """On one line, cleaned once for all; the tokenizer finds nothing to repair, and no end but its own."""
    clean = clean_caption(text)
    assert clean_caption(clean) == clean == " ".join(clean.split())
    assert not caption_cleaning.has_special_token(clean)
    assert not {TOKENIZER.sot_token_id, TOKENIZER.eot_token_id} & set(TOKENIZER.encode(clean))


@pytest.mark.parametrize(("text", "length"), [("(" * 200_000, 1000), ("a dog " * 400_000, 1 << 14), ("a dog", 5)])
def test_a_huge_text_is_cut_and_counted(text, length):
    """What parses a caption, and what rewrites it, takes more than its length in time and memory."""
    counts = Counter()
    assert len(clean_caption(text, counts)) == length
    assert counts["cut_captions"] == (len(text) > 1 << 14 or max(map(len, text.split()), default=0) > 1000)


def test_sources_are_cleaned_where_they_enter():
    """Official texts stay, and those that spell a mark are counted: a model may read nothing behind it."""
    counts = Counter()
    samples = [Sample("1", "1.jpg", ("a &amp; b", "<end_of_text>", "\u200b", "plain"))]
    (sample,) = sample_cleaning.clean_captions(samples, counts)
    assert sample.captions == ("a & b", "end of text", "plain")
    assert (counts["cleaned_captions"], counts["special_tokens"], counts["empty_captions"]) == (2, 1, 1)
    record = Record("1", "all", ("1.jpg",), ("a <end_of_text> dog", "a &lt;end_of_text&gt; cat", "a &amp; b"))
    asked = Benchmark((record,), (), lambda records, embeddings: {}, kind=COMPOSITION)
    benchmark = benchmark_module._repair_texts(asked)
    assert benchmark.records == (record,) and benchmark.dropped == {"special_tokens": 2}
