"""data.<name>.captions, .rewrites, .texts, .masked and .exclude, as params.yaml says them."""

from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.config import plan, read, released_lists
from compclip.config.released_lists import Captions, MaskedSection, ReleasedRewrites, Texts
from compclip.config.sections import Data
from compclip.prepare import file_listing

PARAMS = """
grid: {methods: [hard_positives], backbones: [b], data: [d], seeds: [0]}
methods: {hard_positives: {source: llm}}
backbones: {b: {model: ViT-B-32-quickgelu}}
benchmarks: {sugarcrepe: {path: s, images: i}}
data:
  d:
    source: karpathy
    path: d.json
    images: pictures
    captioner: none
    captions: {file: x.csv, on: url, column: caption}
    rewrites: {captions: c.json, swap: s.jsonl}
    texts: {dense: {file: dense, on: image}, negative: {file: n.tsv, on: caption, column: neg_caption, lists: true}}
    masked: {model: m}
    exclude: [sugarcrepe]
"""


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS)
    return tmp_path / "params.yaml"


def test_as_one_writes_them(params):
    """`on` without quotation marks, which YAML 1.1 takes for true; one column as a text."""
    data = read.load_params(params).data["d"]
    assert released_lists.captions_config(data) == Captions("x.csv", "url", column=["caption"])
    assert released_lists.rewrites_config(data) == ReleasedRewrites("c.json", "s.jsonl")
    assert released_lists.texts_config(data) == {
        "negative": Texts("n.tsv", "caption", column=["neg_caption"], lists=True), "dense": Texts("dense", "image")
    }  # fmt: skip
    assert released_lists.masked_config(data) == MaskedSection("m")
    assert data.exclude == ["sugarcrepe"]


@pytest.mark.parametrize("override,fault", [
    ("data.d.captions.on=uri", "data.d.captions.on: unknown on 'uri'; did you mean 'url'"),
    ("data.d.captions.file=''", "data.d.captions.file: must be given"),
    ("data.d.captions.column={a: b}", "data.d.captions.column"),
    ("data.d.rewrites.swap=''", "data.d.rewrites.swap: names no file"),
    ("data.d.rewriter={url: 'http://x', model: m}", "data.d.rewrites: is given together with a rewriter"),
    ("data.d.captions.on=caption", "data.d.captions.on: unknown on 'caption'"),
    ("data.d.texts={negatives: {file: x.csv, on: url}}", "unknown kind of texts 'negatives'; did you mean 'negative'"),
    ("data.d.texts.negative.on=captions", "data.d.texts.negative.on: unknown on 'captions'; did you mean 'caption'"),
    ("data.d.masked.top=0", "data.d.masked.top=0: must be >= 1"),
    ("data.d.masked.rank=6", "data.d.masked.rank=6: is not among the top 5; raise top"),
    ("data.d.relative_weights=path", "unknown relative_weights 'path'; did you mean 'paths'"),
    ("data.d.masked.pos=[NOUN,ADP,NOUN]", "data.d.masked.pos=['NOUN', 'ADP', 'NOUN']: must name each once"),
    ("data.d.masked.pos=[NOUNS]", "data.d.masked.pos.0: unknown pos 'NOUNS'; did you mean 'NOUN'"),
    ("data.d.exclude=[sugarcrpe]", "data.d.exclude: unknown benchmark 'sugarcrpe'; did you mean 'sugarcrepe'"),
    ("data.d.exclude=[sugarcrepe,sugarcrepe]", "data.d.exclude=['sugarcrepe', 'sugarcrepe']: must name each once; 'sugarcrepe' is named"),
])  # fmt: skip
def test_what_is_wrong_is_told(params, override, fault):
    with pytest.raises(UserError) as caught:
        read.load_params(params, [override])
    assert fault in str(caught.value)


def test_dense_texts_are_filled_where_there_are_some(params):
    assert released_lists.masked_config(read.load_params(params, ["data.d.masked.dense=true"]).data["d"]).dense
    with pytest.raises(UserError, match=r"masked\.dense: the data has no texts\.dense; add them"):
        released_lists.masked_config(Data(masked={"model": "m", "dense": True}))


def test_which_stages_a_key_concerns(params):
    """Excluding pictures captions none anew."""

    def planned(*overrides: str) -> dict:
        documents = plan.build_documents(read.load_params(params, overrides))
        return {f"{s}/{item}": document for s, item, document in documents if s in ("recaption", "rewrite", "annotate")}

    original = planned()
    for override, stages in (
        ("data.d.captions.column=c", ["recaption/d"]),
        ("data.d.rewrites.swap=t.jsonl", ["rewrite/d"]),
        ("data.d.masked.top=3", ["rewrite/d"]),
        ("data.d.masked.rank=3", ["rewrite/d"]),
        ("data.d.relative_weights=paths", ["annotate/d"]),
        ("data.d.texts.dense.on=key", ["annotate/d"]),
        ("data.d.exclude=[]", ["annotate/d"]),
    ):
        changed = planned(override)
        assert [name for name in original if original[name] != changed[name]] == stages


def test_a_list_that_changes_is_seen(params, tmp_path):
    """DVC names no file of a list: `look` does."""
    plan.write_plan(read.load_params(params), Path("plan"))
    listings = []
    for folder in ("dense", "m"):
        (tmp_path / folder).mkdir()
    for name in ("x.csv", "x.csv", "s.jsonl", "c.json", "n.tsv", "dense/a.json", "m/config.json"):
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write("more\n")
        assert file_listing.main([]) == 0
        listings.append((tmp_path / "data" / "looks" / "d.json").read_text())
    assert len(set(listings)) == len(listings)


def test_what_is_joined_is_written_by_nobody_else(params):
    """`source: llm` takes rewrites from either."""
    params.write_text(PARAMS.replace("rewrites: {captions: c.json, swap: s.jsonl}", ""))
    with pytest.raises(UserError, match="data.d names no rewriter"):
        read.load_params(params)
