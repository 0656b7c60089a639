"""Models with heads from training to results: cells, checkpoints, WiSE-FT, publication; against pairs one by one."""

import copy
import json
import shutil
from dataclasses import replace

import numpy as np
import open_clip
import pytest
import torch
from torch.nn import functional as F

from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.config.cell import Cell
from compclip.config.sections import Backbone, BenchmarkSection, Scoring
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import embed, pair_scorers, score, wise_ft
from compclip.evaluate.embeddings import NoVectorsError
from compclip.model import backbone, class_tokens, clip_model, heads, lora, towers
from compclip.publish import __main__ as publish_command
from compclip.runs.run_folder import Published
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning
from tests import tiny_project

METHODS = {
    "labclip": "{caption: first, train: {trainable: none, lr: 0.1}}",
    "flair": "{texts: 2}",
    "codebook_clip": "{codes: 8, code_width: 4, temperature: 0.5}",
    "llip": "{tokens: 3}",
}


@pytest.fixture(scope="module")
def trained(project, tmp_path_factory):
    """A project with a cell of each head, trained for two steps and scored."""
    tables = ", ".join(f"{name}: {options}" for name, options in METHODS.items())
    params = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", f"[pretrained, {', '.join(METHODS)}]")
    params = params.replace("{pretrained: {}, finetune: {}, fsc_clip: {}}", f"{{pretrained: {{}}, {tables}}}")
    root = tiny_project.other(project, tmp_path_factory.mktemp("heads") / "p", steps=2, params=params)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in ("pretrained", *METHODS):
            assert train_command.main(["--cell", tiny_project.cell(name)]) == 0
            assert evaluate_command.main(["--cell", tiny_project.cell(name)]) == 0
    return root


@pytest.fixture(autouse=True)
def in_the_project(trained, monkeypatch):
    monkeypatch.chdir(trained)


def checkpoint(root, name):
    return Published(root, Cell(name, "tiny", "scenes", 0)).trained.checkpoint


def results(root, name) -> dict[str, float]:
    path = tiny_project.results(root, tiny_project.cell(name)) / "sugarcrepe.json"
    return json.loads(path.read_text())["metrics"]


def pictures(root, count) -> list[str]:
    return [str(path) for path in sorted((root / "world" / "test").glob("*.png"))[:count]]


def by_pair(model, path, text) -> float:
    """The score of one picture and text, encoded by themselves, in the way of the model's head."""
    pixels = model.pixels([embed.PreparedPictures().prepare(path, model, True)])
    ids = model.tokenize([text])
    with torch.no_grad():
        image_1D, patch_1ND = towers.encode_images(model.clip.eval(), pixels, tokens=True)
        text_1D, token_1TD = towers.encode_texts(model.clip, ids, tokens=True)
        if model.head.kind == "text_map":
            return float((image_1D * F.normalize(text_1D @ model.head.weight.T, dim=1)).sum())
        if model.head.kind == "text_pooling":
            return float((model.head.pool(patch_1ND, text_1D[None])[0] * text_1D).sum())
        if model.head.kind == "token_mixture":
            return float((model.head.mix(patch_1ND, text_1D)[0] * text_1D).sum())
        mapped_1D = model.head.map_texts(text_1D, token_1TD[:, 1 : int(ids[0].argmax()) + 1])
        return float((model.head.map_images(image_1D, patch_1ND) * mapped_1D).sum())


@pytest.mark.parametrize("name", METHODS)
def test_scores_are_those_of_pairs_one_by_one(trained, name, monkeypatch):
    """Matches, tables, ranks and classes, in blocks that split pictures and texts."""
    monkeypatch.setattr(pair_scorers, "PICTURES", 2)
    monkeypatch.setattr(pair_scorers, "TEXTS", 3)
    model = backbone.load(checkpoint(trained, name))
    refs = pictures(trained, 3)
    texts = ["a red star", "a blue moon near a star", "two hearts", "a star and a star on a light background"]
    targets = pair_scorers.encode(model, refs, texts)
    expected = np.array([[by_pair(model, ref, text) for text in texts] for ref in refs])
    assert np.ptp(expected) > 1e-3  # the pairs differ
    np.testing.assert_allclose(targets.table(refs, texts), expected, atol=2e-6)
    np.testing.assert_allclose(targets.against(refs, targets.texts(texts)), expected, atol=2e-6)
    pairs = [(2, 1), (0, 0), (1, 3), (0, 3), (2, 1)]
    matches = targets.matches([refs[i] for i, _ in pairs], [texts[t] for _, t in pairs])
    np.testing.assert_allclose(matches, [expected[pair] for pair in pairs], atol=2e-6)
    assert matches[0] == matches[4]
    ranks = targets.ranks(refs, texts[:3], np.arange(3))[0][:, 0]
    assert ranks.tolist() == [(expected[i, :3] > expected[i, i]).sum() for i in range(3)]
    if model.head.scores_pairs:  # the towers' vectors of pictures would give other numbers in silence
        with pytest.raises(NoVectorsError, match="vectors of pictures"):
            targets.images(refs)


def test_equal_texts_tie_whatever_stands_beside_them(trained, monkeypatch):
    """A head's last bits depend on the block that a pair is compared in, made visible here: a pair keeps its first score."""
    blocks = list[int]()

    def compare(_models, _how, _pictures, _store, refs, text_TD):
        blocks.append(len(refs) * len(text_TD))
        return np.full((len(refs), len(text_TD)), 0.5 + 1e-9 * len(blocks))

    monkeypatch.setattr(pair_scorers, "_compare", compare)
    model = backbone.load(checkpoint(trained, "flair"))
    refs = pictures(trained, 2)
    caption, foils = "a red star", ["a blue star", "a red star"]
    targets = pair_scorers.encode(model, refs, [caption, *foils])
    of_caption, of_foils = targets.matches(refs, [caption] * 2), targets.matches(refs, foils)
    assert (of_caption == of_foils).tolist() == [False, True]
    assert blocks == [2, 1]  # both pictures with the caption, and the one pair that was not compared


@pytest.mark.parametrize(("room", "encoded"), [(1 << 30, 3), (16 * 16 * 4, 7), (0, 9)])
def test_patches_are_kept_for_the_next_benchmark_as_far_as_there_is_room(trained, monkeypatch, room, encoded):
    """Of three pictures, compared three times: none, one of 16 patches and 16 numbers, or all; the scores are the same."""
    monkeypatch.setattr(pair_scorers, "PATCH_BYTES", room)
    model = backbone.load(checkpoint(trained, "flair"))
    refs, texts = pictures(trained, 3), ["a red star", "two hearts"]
    targets = pair_scorers.encode(model, refs, texts)
    sizes, encode_images = list[int](), towers.encode_images

    def count_images(clip, pixels, tokens):
        sizes.append(len(pixels))
        return encode_images(clip, pixels, tokens=tokens)

    monkeypatch.setattr(towers, "encode_images", count_images)
    first, again, turned = (targets.table(order, texts) for order in (refs, refs, refs[::-1]))
    assert sum(sizes) == encoded
    np.testing.assert_allclose(again, first, rtol=1e-6)
    np.testing.assert_allclose(turned[::-1], first, rtol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_a_checkpoint_by_its_path_scores_as_its_cell(trained, name, capsys):
    folder = checkpoint(trained, name)
    assert heads.has_head(folder)
    assert evaluate_command.main(["--checkpoint", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sugarcrepe"]["metrics"] == results(trained, name)


def test_frozen_towers_are_the_backbones_and_the_map_moved(trained):
    """LABCLIP changes no number of the towers; plain open_clip reads them and knows nothing of the head."""
    folder = checkpoint(trained, "labclip")
    start = backbone.load(trained / "models" / "tiny").clip.state_dict()
    plain = open_clip.create_model(f"local-dir:{folder}").state_dict()
    assert all(torch.equal(start[name], plain[name]) for name in start if name != "logit_scale")
    moved = heads.load_head(folder).weight - torch.eye(16)
    assert 0.05 < moved.abs().max() < 0.5  # two steps of at most 0.1 a number
    facts = json.loads((folder.parent / "environment.json").read_text())
    assert facts["trained_parameters"] == 16 * 16 + 1 + 1  # the map, its temperature, and the model's scale


def test_a_line_starts_at_the_pretrained_model_where_a_head_has_such_a_start(trained, capsys):
    start, tuned = (backbone.load(path) for path in (trained / "models" / "tiny", checkpoint(trained, "labclip")))
    weight = tuned.head.weight.detach().clone()
    models = {alpha: next(score.models_on_line(start, backbone.load(checkpoint(trained, "labclip")), [alpha]))[0]
              for alpha in (0.0, 0.5, 1.0)}  # fmt: skip
    for alpha, model in models.items():
        torch.testing.assert_close(model.head.weight.data, (1 - alpha) * torch.eye(16) + alpha * weight)
    assert "no pretrained weights" not in capsys.readouterr().err
    section = BenchmarkSection("sugarcrepe", "world/sugarcrepe", "world/test", "")
    task = wise_ft.LineTask([0.0, 1.0], {"sugarcrepe": section}, Scoring(threads=1))
    line = wise_ft.bring_line(Cell("labclip", "tiny", "scenes", 0), task, trained, "cpu")[0]["points"]
    for point, name in zip(line, ("pretrained", "labclip"), strict=True):
        expected = {f"sugarcrepe/{metric}": value for metric, value in results(trained, name).items()}
        assert point["metrics"] == expected


def test_an_adapter_alone_has_lost_its_head(trained, tmp_path):
    """The checkpoint around it has the same line, since the adapter is merged there, and the head."""
    folder = shutil.copytree(checkpoint(trained, "flair"), tmp_path / "checkpoint")
    (folder / lora.FOLDER).mkdir()
    (folder / lora.FOLDER / lora.CONFIG).write_text("{}")
    with pytest.raises(UserError, match=f"an adapter alone, whose checkpoint has a head as well; give {folder}"):
        wise_ft.model_between(str(trained / "models" / "tiny"), str(folder / lora.FOLDER), 0.5)


def test_weights_are_averaged_with_the_backbone_as_it_was_extended(trained, tmp_path):
    run = grid.resolve(read.load_params(trained / "params.yaml"), tiny_project.cell("llip"))
    run = replace(run, train=replace(run.train, average_alpha=0.25))
    start, tuned = clip_model.load_folder(trained / "models" / "tiny"), backbone.load(checkpoint(trained, "llip"))
    class_tokens.extend_tower(start, 3, seed=0)
    before = copy.deepcopy(tuned.clip.state_dict())
    fine_tuning.finish_weights(run, trained, tuned, tmp_path)
    for name in ("visual.class_embedding", "visual.positional_embedding", "visual.first_proj", "text_projection"):
        expected = 0.75 * start.clip.state_dict()[name] + 0.25 * before[name]
        torch.testing.assert_close(tuned.clip.state_dict()[name], expected)


@pytest.mark.parametrize(("name", "kind"), [("flair", "text_pooling"), ("llip", "token_mixture")])
def test_a_published_model_keeps_its_head_and_its_card_says_how_to_use_it(trained, name, kind, tmp_path, capsys):
    """The card's own program gives the scores of the cell's model, which open_clip's would not."""
    assert publish_command.main([tiny_project.cell(name), "--to", str(tmp_path / "out")]) == 0
    assert f"cannot express a head ({kind})" in capsys.readouterr().err
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"a head ({kind})" in card and "open_clip knows no heads" in card and "library_name: compclip\n" in card
    (picture,) = pictures(trained, 1)
    program = card.partition("```python\n")[2].partition("```")[0]
    program = program.replace("FOLDER", str(tmp_path / "out")).replace("one.jpg", picture)
    *lines, last = program.strip().splitlines()
    names: dict = {}
    exec("\n".join([*lines, f"scores = {last}"]), names)
    model = backbone.load(checkpoint(trained, name))
    expected = [by_pair(model, picture, text) for text in ("a cup on a book", "a book on a cup")]
    np.testing.assert_allclose(names["scores"], expected, atol=2e-6)


def test_a_model_with_a_head_is_no_backbone(trained, tmp_path):
    with pytest.raises(UserError, match=r"has a head \(text_map\), which training would lose"):
        backbone.load_backbone(Backbone(model=f"local-dir:{checkpoint(trained, 'labclip')}"), 0)
    folder = shutil.copytree(checkpoint(trained, "labclip"), tmp_path / "other")
    config = json.loads((folder / clip_model.CONFIG).read_text())
    config["model_cfg"]["embed_dim"] = 8
    heads.TextMap(8).save(folder)
    with pytest.raises(UserError, match="its head takes vectors of 8, not 16"):
        backbone.load(folder)


@pytest.mark.parametrize(("tokens", "width"), [(2, 32), (3, 8)])
def test_a_head_of_other_class_tokens_is_refused(trained, tmp_path, tokens, width):
    folder = shutil.copytree(checkpoint(trained, "llip"), tmp_path / "other")
    heads.TokenMixture(width=16, heads=4, temperature=5, tokens=tokens, token_width=width).save(folder)
    with pytest.raises(UserError, match=f"its head takes {tokens} class tokens of {width} numbers, not 3 of"):
        backbone.load(folder)
