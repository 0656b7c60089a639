"""The profile: the scenes' pretrained model beside CLIP's published numbers."""

from __future__ import annotations

import math

import pytest

from compclip.base.errors import UserError
from compclip.validity import __main__ as validity_command
from compclip.validity import world_profile
from tests.conftest import ROOT

PUBLISHED = ROOT / "experiments" / "published"


def test_clip_has_the_printed_numbers():
    """Those of the first file that has one: C2LIP's, CLIC's and Hard Positives', vl_compo's models; naming is ImageNet's.

    CLIC's Table 8 has 56.2 and 32.7 where C2LIP's Table A4 has 56.3 and 35.6, of the same model.
    """
    clip = world_profile.read_clip_numbers(PUBLISHED)
    expected = {
        "sugarcrepe/swap_obj": 61.2,
        "sugarcrepe_pp/replace_rel_itt": 56.3,
        "sugarcrepe_pp/swap_att_tot": 35.6,
        "hard_positives/replace_relations_augmented": 45.3,
        "hard_positives/swap_brittleness": 21.7,
        "winoground/group": 8.7,
    }
    assert {name: clip[name] for name in expected} == expected
    named = {row.column: row.clip for row in world_profile.make_profile([], clip)}
    assert named["zeroshot_symbols/top_1"] == pytest.approx(63.3, abs=0.1)
    assert 70 < named["retrieval/i2t_recall_at_5"] < 80
    assert [name for name, value in named.items() if math.isnan(value)] == ["zeroshot_colours/top_1"]


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no number of the pretrained CLIP ViT-B/32; give the folder"):
        world_profile.read_clip_numbers(tmp_path)


def test_the_command_prints_chance_clip_and_ours(monkeypatch, capsys):
    """A row a column; two models stand side by side; parameters reach the scoring."""
    records = []

    def score(params, ref):
        records.append((params.scenes.records, ref))
        return dict.fromkeys(world_profile.CHANCE, 12.34 if ref == "a/w.safetensors" else 5.0)

    monkeypatch.setattr(world_profile, "score_weights", score)
    where = ["--params", str(ROOT / "params.yaml"), "--published", str(PUBLISHED)]
    assert validity_command.main(["profile", *where, "a/w.safetensors", "b.safetensors", "scenes.records=7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| column | chance | CLIP ViT-B/32 | w.safetensors | b.safetensors |"
    assert "| sugarcrepe_pp/replace_att_itt | 33.3 | 65.6 | 12.3 | 5.0 |" in lines
    assert "| zeroshot_colours/top_1 |  |  | 12.3 | 5.0 |" in lines
    assert records == [(7, "a/w.safetensors"), (7, "b.safetensors")]
    assert len(lines) == len(world_profile.CHANCE) + 2


def test_columns_are_metrics_of_the_benchmarks():
    """Every column is one that its benchmark measures."""
    from compclip.benchmarks import hard_positives, retrieval, sugarcrepe, sugarcrepe_pp, winoground

    modules = {
        m.__name__.rpartition(".")[2]: m for m in (hard_positives, retrieval, sugarcrepe, sugarcrepe_pp, winoground)
    }
    for column in world_profile.CHANCE:
        name, _, metric = column.partition("/")
        assert name.startswith("zeroshot_") or metric in modules[name].METRICS, column
