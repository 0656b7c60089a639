"""Hard positives written by a language model: the rewrite stage, and how a rewrite reaches training."""

import json
import shutil
from dataclasses import asdict

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.base.safe_names import SafeName
from compclip.config import read, servers
from compclip.config.sections import Data
from compclip.config.servers import Rewriter
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import Sample
from compclip.data.shard_files import Manifest
from compclip.llm import chat_client
from compclip.llm.answer_cache import Answer
from compclip.methods import hard_positives
from compclip.prepare import rewrite_shards, shard_stages, shard_writer
from compclip.text import annotation, positives
from compclip.train.view_maker import ViewMaker
from tests.chat_server import Reply, completion_body, prompt, serve
from tests.llm.endpoint.asked import always
from tests.prepared_set import all_annotations

RNG = np.random.default_rng(0)
CAPTIONS = ("A dog and a cat.", "A red bus.", "Bread and butter on a table.", "Two men.")
SWAPPED = {CAPTIONS[0]: "A cat and a dog.", CAPTIONS[2]: "Output: Butter and bread on a table."}
CHATTER = "Sure! Here is one way of putting it that keeps all of the meaning of it as it was"
REPLACED = dict(zip(CAPTIONS, ("A dog and a feline.", '"A crimson bus."', CHATTER, "Two men."), strict=True))


def writer(body):
    """A model that knows the answers above; the caption stands at the end of REPLACE and before SWAP's last Output."""
    question = prompt(body)
    if question.startswith("Swap the words around"):
        return completion_body(SWAPPED[question.removesuffix(" Output:").rpartition("Input: ")[2]])
    return completion_body(REPLACED[question.partition("Only output the changed sentence. ")[2]])


@pytest.fixture
def folder(tmp_path):
    """A prepared data set of two pictures with two captions each; one caption stands twice."""
    rows = [Sample("1", "1.jpg", CAPTIONS[:2]), Sample("2", "2.jpg", (*CAPTIONS[2:], CAPTIONS[0]))]
    folder = tmp_path / "data" / "d"
    shard_writer.save_samples(folder / "samples" / "00000.arrow", rows)
    shard_entry = shard_writer.describe_shard(folder / "samples" / "00000.arrow", "00000", 2, 4)
    shard_writer.write_manifest(folder / "samples" / "manifest.json", Manifest((shard_entry,)))
    return folder


def run_rewrite(cfg, folder):
    """The stage with this rewriter: its counts."""
    section = Data("karpathy", "d.json", ".", captioner="none", rewriter={} if cfg is None else asdict(cfg))
    return shard_stages.run_stage("rewrite", SafeName("d", "data"), section, folder.parent.parent)


@pytest.fixture(autouse=True)
def without_waits(monkeypatch):
    monkeypatch.setattr(chat_client, "WAIT_S", 0.0)
    monkeypatch.setattr(chat_client, "ATTEMPTS", 2)


def settings(at, folder, **overrides):
    return Rewriter(**{"url": at.url, "model": "m", "cache": str(folder / "answers.sqlite")} | overrides)


def test_rewrites_are_written_and_what_is_not_used_is_counted(folder):
    """SWAP for captions with "and" alone, REPLACE for all; chatter and unchanged answers are dropped by name.

    A second run asks nobody and writes the same.
    """
    with serve(writer) as at:
        counts = run_rewrite(settings(at, folder), folder)
    swaps = ("A cat and a dog.", "", "Butter and bread on a table.", "")
    replaced = ("A dog and a feline.", "A crimson bus.", "", "")
    rewrites = rewrite_shards.load_rewrites(folder / "rewrites" / "00000.arrow")
    assert rewrites == dict(zip(CAPTIONS, map(rewrite_shards.Rewrites, swaps, replaced), strict=True))
    assert counts["swap"].items() >= {"asked": 2, "answered": 2, "usable": 2, "not_asked": 2}.items()
    assert counts["replace"].items() >= {"asked": 4, "answered": 4, "usable": 2, "chatter": 1, "unchanged": 1}.items()
    assert json.loads((folder / "rewrite_counts.json").read_text()) == counts
    assert {r["max_tokens"] for r in at.requests if prompt(r).startswith("Swap")} == {20}
    assert {r["max_tokens"] for r in at.requests if prompt(r).startswith("Replace")} == {30}
    first = (folder / "rewrites" / "00000.arrow").read_bytes()
    shutil.rmtree(folder.parent.parent / ".work" / "shards" / "rewrite")  # what was made, not what was said
    counts = run_rewrite(settings(at, folder), folder)
    assert (folder / "rewrites" / "00000.arrow").read_bytes() == first
    assert [counts[kind]["cached"] for kind in rewrite_shards.KINDS] == [2, 4]
    assert not any("answered" in counts[kind] for kind in rewrite_shards.KINDS)


def test_failures_leave_nothing_half_written(folder):
    """Too many failures: one line, and no file."""
    with (
        serve(always(Reply(500, "broken"))) as at,
        pytest.raises(UserError, match="1 of 2 questions failed, the last with http_500"),
    ):
        run_rewrite(settings(at, folder), folder)
    assert not (folder / "rewrites").exists()


@pytest.mark.parametrize(
    ("caption", "is_swapped"),
    [("A cat And a dog", True), ("a band on sand", False), ("a " * 11 + "and b c", True), ("a " * 12 + "and b c", False)],
)  # fmt: skip
def test_which_captions_are_swapped(caption, is_swapped):
    """The word "and", and fewer than 15 words."""
    assert rewrite_shards.can_swap(caption) is is_swapped


@pytest.mark.parametrize(
    ("kind", "text", "cut_short", "fault"),
    [("swap", "a dog and a cat", False, ""), ("swap", "a dog, a cat", False, "chatter"),
     ("swap", "a dog and a", True, "unfinished"), ("swap", "A cat and a dog.", False, "unchanged"),
     ("replace", "a cat and a hound\nIs it fine?", False, "chatter"), ("replace", "a cat and a hound", False, "")],
)  # fmt: skip
def test_what_is_usable(kind, text, cut_short, fault):
    """Of answers for "a cat and a dog"."""
    assert rewrite_shards.check_rewrite(kind, "a cat and a dog", Answer(text, cut_short))[1] == fault


def test_a_caption_with_braces_is_asked_as_it_stands():
    """No formatting of what is not ours."""
    prompt_text = rewrite_shards.build_prompt("any", "a {sign} and {0}")
    assert prompt_text.endswith("Only output the changed sentence. a {sign} and {0}")


@pytest.mark.parametrize(("words", "start"), [("verbs", "Replace one verb in"), ("prepositions", "Replace a spatial")])
def test_relations_are_asked_for_by_their_own_prompts(words, start, folder):
    """Hard Positives, D.3: of verbs or of spatial prepositions."""
    questions = []

    def answer(body):
        questions.append(prompt(body))
        return completion_body("A crimson bus.")

    with serve(answer) as at:
        run_rewrite(settings(at, folder, kinds="replace", replace_words=words), folder)
    assert questions and all(question.startswith(start) for question in questions)
    assert all(f"Input: {caption}\nOutput:" in " ".join(questions) for caption in CAPTIONS)


def test_from_the_rewriter_to_the_view(folder):
    """Rewrites go through the annotations into the views that hard_positives asks for with `source: llm`."""
    with serve(writer) as at:
        cfg = settings(at, folder)
        run_rewrite(cfg, folder)
    section = Data("karpathy", "d.json", ".", captioner="none", rewriter=asdict(cfg))
    shard_stages.run_stage("annotate", SafeName("d", "data"), section, folder.parent.parent)
    data = PreparedDataset(folder)
    annotations = all_annotations(data)
    assert positives.written_swap(annotations[0][0], RNG) == "A cat and a dog."
    assert positives.written_replace(annotations[0][1], RNG) == "A crimson bus."
    assert positives.written_swap(annotations[1][1], RNG) is None
    assert annotations[1][2] == annotations[0][0]
    views = hard_positives.views(hard_positives.Config(source="llm"), 0)
    maker = ViewMaker(data, 0, 8, lambda sample: None)
    made = [maker.view(0, epoch, views) for epoch in range(20)]
    expected = (("A cat and a dog.", "A dog and a feline."), (None, "A crimson bus."))
    assert {view.caption: view.positives for view in made} == dict(zip(CAPTIONS, expected, strict=False))


def test_a_rewrite_is_of_the_whole_caption():
    """A sentence of a longer caption has none: the model rewrote another text."""
    one_sentence = annotation.Annotation("A and B.", sentences=((0, 8),), written_swap="B and A.")
    two_sentences = annotation.Annotation("A and B. C.", sentences=((0, 8), (9, 11)), written_swap="B and A. C.")
    assert one_sentence.sentence(0).written_swap == "B and A."
    assert two_sentences.sentence(0).written_swap == ""


PARAMS = """
grid: {{methods: [hard_positives], backbones: [b], data: [d], seeds: [0]}}
methods: {{hard_positives: {{source: {source}}}}}
backbones: {{b: {{model: ViT-B-32-quickgelu}}}}
data:
  d: {{source: karpathy, path: d.json, images: ., captioner: none, rewriter: {rewriter}}}
"""


def load(tmp_path, source="llm", rewriter="{}"):
    (tmp_path / "params.yaml").write_text(PARAMS.format(source=source, rewriter=rewriter))
    return read.load_params(tmp_path / "params.yaml")


def test_a_rule_needs_data_that_were_annotated_for_it(tmp_path):
    """Said before anything runs, with the key to set."""
    with pytest.raises(UserError, match=r"methods.hard_positives: needs data.d.relatives: true; set it there"):
        load(tmp_path, "rules, replace: clove")
    assert load(tmp_path, "rules, replace: clove", "{}, relatives: true").data["d"].relatives


def test_parameters(tmp_path):
    """Unknown keys have close matches; `source: llm` needs a rewriter."""
    params = load(tmp_path, rewriter="{url: 'http://x/v1', model: m, kinds: swap}")
    assert servers.rewriter_config(params.data["d"]) == Rewriter(url="http://x/v1", model="m", kinds="swap")
    assert servers.rewriter_config(Data()) is None
    server = "{url: 'http://x/v1', model: m, %s}"
    for source, rewriter, fault in (
        ("llm", "{}", "methods.hard_positives.source=llm: data.d names no rewriter; add data.d.rewriter with url and model"),
        ("lmm", "{}", "source"),
        ("rules", server % "paralel: 2", "data.d.rewriter: unknown key 'paralel'; did you mean 'parallel'"),
        ("rules", server % "kinds: swp", "data.d.rewriter.kinds: unknown kinds 'swp'; did you mean 'swap'?"),
        ("rules", "{model: m}", "data.d.rewriter.url: must be given"),
    ):  # fmt: skip
        with pytest.raises(UserError) as caught:
            load(tmp_path, source, rewriter)
        assert fault in str(caught.value)
