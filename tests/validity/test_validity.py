"""Validity: the shipped file and its split, the papers' differences by hand, and the analysis of pairs."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.report import published_coverage, published_numbers
from compclip.report.published_numbers import PublishedNumber
from compclip.report.tables import Column
from compclip.validity import counterparts, difference_pairs, pair_summary, validity_page
from compclip.validity.counterparts import CHOOSING, HELD_OUT, NEW_ROWS, Counterpart, Counterparts, Goal, PublishedRow
from compclip.validity.difference_pairs import DifferencePair, PrintedDifference
from tests.conftest import ROOT

FILE, TABLES = ROOT / "experiments" / "validity.yaml", ROOT / "experiments" / "published"
NEVER_RUN = (
    "clic.b1", "clic.b2", "clic.b3", "clic.c1", "clic.positives2", "clic.positives3", "clic.positives5",
    "clic.common_noun", "clic.epochs2", "clic.epochs3", "fsc_clip.gamma_1", "fsc_clip.gamma_5", "fsc_clip.epsilon_0p05",
    "fsc_clip.epsilon_0p1", "fsc_clip.lambda_local_0p1", "fsc_clip.lambda_local_0p5", "fsc_clip.local_scr",
    "fsc_clip.local_only_softmax", "fsc_clip.local_only_minmax_sparse",
)  # fmt: skip
GRIDS = [ROOT / "experiments" / "grids" / f"{name}.yaml" for name in ("claims", "field", "validity_rows")]
STATED, TRANSCRIBED = counterparts.read_counterparts(FILE), published_numbers.read_numbers(TABLES)
NUMBERS = STATED.select_numbers(TRANSCRIBED)


@functools.cache
def grid_methods() -> dict[str, list[str]]:
    """The methods of each grid; read by the process that runs these tests, not by all that collect them."""
    return {path.stem: read.load_params(path).grid.methods for path in GRIDS}


@functools.cache
def known_methods():
    """The methods of all shipped grids."""
    return published_coverage.read_grid_methods(ROOT / published_coverage.GRIDS, ROOT / published_coverage.PARAMS)


# the shipped file


def test_the_names_of_the_file_are_there():
    """Rows of the grids, papers, tables, rows and columns."""
    counterparts.check_counterparts(STATED, known_methods(), NUMBERS, "here")


def test_tables_of_after_the_split_are_not_used():
    """So that the halves, and what was measured with them, stay; a name that is none is told."""
    assert {(n.paper, n.table) for n in TRANSCRIBED} - {(n.paper, n.table) for n in NUMBERS} == {
        *(("DeGLA", f"Table {i}") for i in (2, 3, 4, 5)), ("READ-CLIP", "Table 1"), ("FSC-CLIP", "ViT-L/14"),
        ("NegBench", "baselines"), ("NegBench", "fine-tuned"), ("CS-CLIP", "project page"),
        *(("CLIC", f"Table {i}") for i in (8, 9, 15)), ("C2LIP", "Table A3"), ("C2LIP", "Table A4"),
        ("Hard Positives", "Table 1 of the paper"), ("Hard Positives", "Table 7 of the paper"), *(("CE-CLIP", f"Table {i}") for i in (1, 2, 3)),
        *(("TripletCLIP", f"Table {i}") for i in (4, 5, 7, 16)), ("CLIP-IN", "Table 1"), ("CLIP-IN", "Table 3"),
        ("CoN-CLIP", "losses"), ("FLAIR", "README"), ("SugarCrepe", "pretrained models"), ("SugarCrepe", "re-evaluation"),
    }  # fmt: skip
    with pytest.raises(UserError, match=r"unknown paper or table 'FSC-CLIP, Table 9'"):
        replace(STATED, unused={"FSC-CLIP, Table 9": "why"}).select_numbers(TRANSCRIBED)


def test_the_split_follows_the_rule():
    """Written out once more: sorted by hash in each stratum, every other one from the first."""
    raw = yaml.safe_load(FILE.read_text())
    strata: dict[str, list[str]] = {}
    new_rows = raw["split"].pop("new_rows")
    for row, papers in ((row, papers) for row, papers in raw["rows"].items() if row not in new_rows):
        strata.setdefault(next(iter(papers)) if len(papers) == 1 else "", []).append(row)
    kinds: dict[str, list[str]] = {}
    for name, column_entry in raw["columns"].items():
        if not column_entry.get("of"):
            kinds.setdefault(column_entry["kind"], []).append(name)
    choosing = {section: set() for section in ("rows", "columns")}
    for section, strata_of_section in (("rows", strata), ("columns", kinds)):
        for names in strata_of_section.values():
            names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
            choosing[section] |= set(names[::2])
    choosing["rows"] |= {row for row, like in raw["same"].items() if like in choosing["rows"]}
    choosing["columns"] |= {
        n
        for n, column_entry in raw["columns"].items()
        if column_entry.get("of") and set(column_entry["of"]) <= choosing["columns"]
    }
    for section, names in choosing.items():
        assert set(raw["split"]["choosing"][section]) == names
        split_names = raw["split"]["choosing"][section] + raw["split"]["held_out"][section]
        further_rows = (*raw["same"], *new_rows) if section == "rows" else ()
        assert sorted([*split_names, *(new_rows if section == "rows" else ())]) == sorted(
            {*raw[section], *further_rows}
        )


def test_new_rows_move_no_other_row_and_stand_beside_the_halves():
    """Without them the file gives the same halves; of a new row every column is new, and never ran before."""
    assert {row for row, half in STATED.row_halves.items() if half == NEW_ROWS} == set(NEVER_RUN)
    before = {
        row: list(dict.fromkeys(s.paper for s in STATED.rows[row])) for row in STATED.rows if row not in NEVER_RUN
    }
    assert counterparts.split_rows(before, STATED.aliases) == {
        row: half for row, half in STATED.row_halves.items() if half != NEW_ROWS
    }
    assert {STATED.find_half(row, c) for row in NEVER_RUN for c in STATED.columns} == {NEW_ROWS}
    assert not set(NEVER_RUN) & {*grid_methods()["claims"], *grid_methods()["field"]}
    assert set(NEVER_RUN) <= set(grid_methods()["validity_rows"])


def test_rows_of_both_grids_train_alike():
    """So that runs of equal seeds are shared, and what stands below both is one training."""
    grids = {path.stem: read.load_params(path) for path in GRIDS}
    claims, rows = grids["claims"], grids["validity_rows"]
    assert rows.grid.methods[: len(claims.grid.methods)] == claims.grid.methods
    for method in claims.grid.methods:
        assert grid.method_config(rows, method) == grid.method_config(claims, method)
    assert (rows.data, rows.backbones, rows.scenes, rows.benchmarks) == (
        claims.data, claims.backbones, claims.scenes, claims.benchmarks
    )  # fmt: skip


@pytest.mark.parametrize("half", [CHOOSING, HELD_OUT])
def test_each_half_has_pairs_of_every_paper_and_kind(half):
    """Kinds that are made of others alone may be kept aside."""
    prints, family_of = difference_pairs.index_printed(STATED, NUMBERS), {f.name: f for f in STATED.families}
    papers_and_kinds = {(p.paper, family_of[c.family].kind) for row in STATED.rows for c in STATED.columns
             if STATED.find_half(row, c) == half for name in c.published for p in prints(row, name)}  # fmt: skip
    assert {paper for paper, _ in papers_and_kinds} == {n.paper for n in NUMBERS}
    assert {kind for _, kind in papers_and_kinds} >= {f.kind for f in STATED.families if not f.components}


@pytest.mark.parametrize("path", GRIDS, ids=lambda p: p.stem)
def test_every_row_of_the_grids_has_a_counterpart_or_a_reason(path):
    rows = [m for m in grid_methods()[path.stem] if m != "pretrained"]
    assert [row for row in rows if not STATED.published_rows(row) and not STATED.find_reason("rows", row)] == []
    assert not [row for row in rows if STATED.published_rows(row) and row in STATED.without["rows"]]


def test_a_published_row_stands_for_the_row_that_its_method_names():
    """Or for the method that trains what the checkpoint of others is; and for one row alone, if not left out."""
    trained = {
        "released.negclip": "negclip", "released.ce_clip": "ce_clip", "released.gnm_clip": "gnm_clip",
        "released.clove": "clove", "released.dac_llm": "dac", "released.dac_sam": "dac", "released.tsvlc_rb": "svlc",
        "released.con_clip": "con_clip", "released.tripletclip": "triplet_clip",
        "released.crepe_swap": "crepe.swap", "released.crepe_replace": "crepe.replace", "released.clic_laion": "clic",
    }  # fmt: skip
    stands = {s: row for row, published_rows in STATED.rows.items() for s in published_rows}
    assert len(stands) == sum(map(len, STATED.rows.values()))
    ours = {m for names in grid_methods().values() for m in names} - {"pretrained"} | {
        "hard_positives.swap_only"
    }  # withdrawn
    for n in NUMBERS:
        row = "svlc.pos" if n.row == "SVLC+Pos" else trained.get(n.method, n.method)
        row = None if STATED.find_reason("rows", row) else row
        assert stands.get(PublishedRow(n.paper, n.table, n.row)) == (row if row in ours else None), n


def test_every_published_column_has_a_counterpart_or_a_reason():
    """And a row in the file loses no number for want of a pretrained one."""
    paired_columns = {name for c in STATED.columns for name in c.published}
    assert [
        n.column for n in NUMBERS if n.column not in paired_columns and not STATED.find_reason("published", n.column)
    ] == []
    prints, sources = (
        difference_pairs.index_printed(STATED, NUMBERS),
        {s for published_rows in STATED.rows.values() for s in published_rows},
    )
    of_rows = [
        n
        for n in published_numbers.drop_wrong_activations(NUMBERS)
        if PublishedRow(n.paper, n.table, n.row) in sources and n.column in paired_columns
    ]
    assert sum(len(prints(row, name)) for row in STATED.rows for name in paired_columns) == len(of_rows)


# the published side, by hand


def number(paper, table, row, method, value, column="sugarcrepe/swap", backbone="B", data=""):
    return PublishedNumber(paper, table, row, method, backbone, data, *column.split("/"), str(value))


def stated(rows, columns, baselines=None, same=None):
    families = tuple(counterparts.ColumnFamily(name, "k", (), (Counterpart(name, name, tuple(p), False),))
                     for name, p in columns.items())  # fmt: skip
    halves = dict.fromkeys((*rows, *(same or {})), CHOOSING)
    without = {section: {} for section in ("rows", "columns", "published")}
    return Counterparts(
        "raw", Goal(0.5, "column_means"), rows, same or {}, baselines or {}, families, without, halves, dict.fromkeys(columns, CHOOSING),
        {row: row for row in halves},
    )  # fmt: skip


def test_numbers_of_a_wrong_activation_are_in_no_pair():
    rows, columns = {"negclip": (PublishedRow("P", "1", "N"),)}, {"c": ["sugarcrepe/swap"]}
    clip, negclip = number("P", "1", "CLIP", "pretrained", 50), number("P", "1", "N", "negclip", 53.5)
    declared, wrong = stated(rows, columns), replace(negclip, activation="gelu")
    assert len(difference_pairs.index_printed(declared, [clip, negclip])("negclip", "sugarcrepe/swap")) == 1
    assert not difference_pairs.index_printed(declared, [clip, wrong])("negclip", "sugarcrepe/swap")
    not_paired = difference_pairs.find_unpaired(declared, [], ["negclip"], ["c"], [clip, wrong], [CHOOSING, HELD_OUT])
    assert [row.why for row in not_paired.published_rows] == ["scored with GELU, not the activation of its weights"]
    assert validity_page.describe_wrong_activations([wrong]) == (
        "1 published number in 1 row (P), scored with a wrong activation"
    )


def test_a_difference_is_to_the_pretrained_model_of_its_table_and_backbone():
    """Of another table where the file says so; without one there is no difference."""
    numbers = [
        number("P", "1", "CLIP", "pretrained", 50), number("P", "1", "CLIP L", "pretrained", 60, backbone="L"),
        number("P", "1", "N", "negclip", 53.5), number("P", "1", "N", "negclip", 61, backbone="L"),
        number("P", "1", "N", "negclip", 70, backbone="H"), number("P", "2", "N2", "negclip", 49),
        number("Q", "1", "CLIP", "pretrained", 10), number("P", "1", "N", "negclip", 5, column="a/b"),
    ]  # fmt: skip
    rows = {"negclip": (PublishedRow("P", "1", "N"), PublishedRow("P", "2", "N2"))}
    differences = difference_pairs.index_printed(stated(rows, {}, {("P", "2"): "1"}), numbers)(
        "negclip", "sugarcrepe/swap"
    )
    assert [(p.table, p.backbone, p.difference) for p in differences] == [
        ("1", "B", 3.5),
        ("1", "L", 1.0),
        ("2", "B", -1.0),
    ]
    assert difference_pairs.index_printed(stated(rows, {}), numbers)("negclip", "a/b") == ()
    alike = stated(rows, {}, {("P", "2"): "1"}, {"other": "negclip"})
    assert difference_pairs.index_printed(alike, numbers)("other", "sugarcrepe/swap") == differences


def test_the_mean_goes_over_tables_then_columns_then_models_then_papers():
    """A model that three tables print weighs as much as one that is printed once."""

    def print_difference(paper, table, data, column, gap):
        return PrintedDifference(paper, table, "r", "m", "B", data, column, gap)

    often = [print_difference("P", table, "coco", "c", gap) for table, gap in (("1", 1.0), ("2", 2.0), ("3", 3.0))]  # 2
    other_column = [print_difference("P", "1", "coco", "d", 6.0)]  # with it (2 + 6) / 2 = 4
    model, paper = [print_difference("P", "1", "laion", "c", 8.0)], [print_difference("Q", "1", "coco", "c", 0.0)]
    assert difference_pairs.average_printed(often) == 2.0
    assert difference_pairs.average_printed([*often, *other_column]) == 4.0
    assert difference_pairs.average_printed([*often, *other_column, *model]) == 6.0
    assert difference_pairs.average_printed([*often, *other_column, *model, *paper]) == 3.0


# analysis of pairs


def pair(row, column, theirs, *ours, detail=False, family=None, score=False, lower=False, row_family="", kind="k"):
    counterpart = Counterpart(column, family or column, (column,), detail)
    unit = Column(*column.split("/"), lower=lower, score=score)
    printed = (PrintedDifference("P", "1", row, "m", "B", "", column, theirs),)
    return DifferencePair(
        row,
        counterpart,
        kind,
        unit,
        CHOOSING,
        tuple(range(len(ours))),
        tuple(map(float, ours)),
        printed,
        row_family or row,
    )


def world(way, rows=8, columns=("a/x", "b/x", "c/x")):
    """Each column's differences in an order of its own; ours follow it by `way`."""
    rng = np.random.default_rng(5)
    gaps = rng.permutation(rows * len(columns)).reshape(rows, len(columns)) + 1.0
    return [pair(f"m{i}", c, gaps[i, j], way(gaps[i, j])) for i in range(rows) for j, c in enumerate(columns)]


def test_a_world_that_orders_as_the_papers_do():
    """1 everywhere, with an interval of nothing else; the opposite is -1, and every sign is the other."""
    for sign in (1, -1):
        summary = pair_summary.summarize_pairs("s", world(lambda v, sign=sign: sign * v**3), number_of_draws=200)
        for both in (summary.within, summary.raw, *(line.correlations for line in summary.columns)):
            assert [both.rho.value, both.rho.low, both.rho.high] == pytest.approx([sign] * 3)
            assert [both.tau.value, both.tau.low, both.tau.high] == pytest.approx([sign] * 3)
        assert (summary.pairs, summary.methods, len(summary.columns), len(summary.rows)) == (24, 8, 3, 8)
        assert summary.signs.value == summary.signs.low == summary.signs.high == (sign > 0)


def test_ranks_within_columns_do_not_see_how_far_columns_lie_apart():
    """One column gains and one loses under every method, and the scenes turn that: raw falls, within does not."""
    pairs = world(lambda v: v, columns=("a/x", "b/x"))
    moved = [replace(p, ours=(p.mean + (-100 if p.column.name == "a/x" else 100),),
                     printed=(replace(p.printed[0], difference=p.published + (100 if p.column.name == "a/x" else -100)),))
             for p in pairs]  # fmt: skip
    original_summary, moved_summary = (
        pair_summary.summarize_pairs("s", pairs, number_of_draws=50),
        pair_summary.summarize_pairs("s", moved, number_of_draws=50),
    )
    assert original_summary.within.rho.value == moved_summary.within.rho.value == pytest.approx(1)
    assert original_summary.raw.rho.value == pytest.approx(1)
    assert moved_summary.raw.rho.value < -0.4
    assert moved_summary.signs.value == 0


def test_details_and_scores_have_lines_and_no_part_in_what_they_would_distort():
    """A detail is in neither pooled number, a score in the one within columns."""
    pairs = world(lambda v: v)
    detail = [pair(f"m{i}", "a/part", i, -i, detail=True, family="a/x") for i in range(1, 9)]
    score = [pair(f"m{i}", "d/score", i, -i, score=True) for i in range(1, 9)]
    alone = pair_summary.summarize_pairs("s", pairs, number_of_draws=50)
    summary = pair_summary.summarize_pairs("s", [*pairs, *detail], number_of_draws=50)
    assert (summary.pairs, summary.within.rho.value, summary.raw) == (24, alone.within.rho.value, alone.raw)
    line = next(line for line in summary.columns if line.detail)
    assert (line.name, line.pairs, line.correlations.rho.value) == ("a/part", 8, pytest.approx(-1))
    scored = pair_summary.summarize_pairs("s", [*pairs, *score], number_of_draws=50)
    assert scored.raw == alone.raw
    assert scored.within.rho.value == pytest.approx(0.5)  # three columns of four


def test_families_of_methods_and_columns_that_move_together_are_single_witnesses():
    """Three variants of each of six methods, two metrics of each of three benchmarks, alike: as if there were 6 x 3."""
    rng = np.random.default_rng(3)
    theirs_FK, ours_FK = rng.normal(size=(2, 6, 3))
    alike, single = (
        [
            pair(f"m{f}.{v}", f"b{k}/{c}", theirs_FK[f, k], ours_FK[f, k], row_family=f"m{f}", kind=f"b{k}")
            for f in range(6) for v in range(variants) for k in range(3) for c in range(columns)
        ]
        for variants, columns in ((3, 2), (1, 1))
    )  # fmt: skip
    wide, narrow = (pair_summary.summarize_pairs("s", pairs, number_of_draws=200) for pairs in (alike, single))
    assert (wide.methods, wide.families, wide.kinds) == (18, 6, 3)

    def width(estimate):
        return estimate.high - estimate.low

    for by_method, by_family, of_single in (
        (wide.raw.rho, wide.by_family.raw.rho, narrow.by_family.raw.rho),
        (wide.signs, wide.by_family.signs, narrow.by_family.signs),
        (wide.within.rho, wide.by_family.within.rho, narrow.by_family.within.rho),
    ):
        assert by_method.value == by_family.value == pytest.approx(of_single.value)
        assert width(by_family) > 1.3 * width(by_method)
        assert width(by_family) == pytest.approx(width(of_single), rel=0.25)


def test_less_is_better_is_turned_on_both_sides():
    lower_pair = pair("m", "a/gap", 4.0, -2.0, lower=True)
    assert (lower_pair.published, lower_pair.mean) == (-4.0, -2.0)  # ours is turned where it is measured
    assert difference_pairs.higher_is_better(3.0, Column("a", "gap", lower=True)) == -3.0


def test_by_method_is_over_columns_of_like_size():
    """A column that is ten times as wide counts as much: m0 gains most where the papers have it gain most."""
    gaps = {"a/x": 1.0, "b/x": 20.0, "c/x": 300.0, "d/x": 4000.0}  # of all methods but m0
    rank = dict(zip(gaps, (4, 3, 2, 1), strict=True))
    pairs = [pair("m0", c, gap * rank[c], gap * rank[c]) for c, gap in gaps.items()]
    pairs += [pair(f"m{i}", c, gap, gap) for i in range(1, 6) for c, gap in gaps.items()]
    first = pair_summary.summarize_pairs("s", pairs, number_of_draws=50).rows[0]
    assert (first.name, first.pairs, first.correlations.rho.value) == ("m0", 4, pytest.approx(1))
    assert first.signs.value == 1


def test_the_same_pairs_give_the_same_numbers():
    pairs = world(math.sin)
    assert pair_summary.summarize_pairs("s", pairs, number_of_draws=100) == pair_summary.summarize_pairs(
        "s", pairs, number_of_draws=100
    )


def test_seeds_widen_an_interval():
    """Two seeds that disagree, against their mean alone."""
    pairs = world(lambda v: v)
    loud = [
        replace(p, seeds=(0, 1), ours=(p.mean - 9 * (-1) ** i, p.mean + 9 * (-1) ** i)) for i, p in enumerate(pairs)
    ]
    assert [p.mean for p in loud] == [p.mean for p in pairs]
    rho = pair_summary.summarize_pairs("s", loud, number_of_draws=400).within.rho
    assert rho.value == pytest.approx(1)
    assert rho.low < 0.95


def test_halves_by_hand():
    """A stratum of one is choosing; who is made of others needs them all."""
    halves = counterparts.split_families({"a": "k", "b": "l", "c": "m", "d": "m", "e": "k"}, {"e": ["a", "b"]})
    assert {halves["a"], halves["b"], halves["e"]} == {CHOOSING}
    assert {halves["c"], halves["d"]} == {CHOOSING, HELD_OUT}
    aside = next(name for name in "cd" if halves[name] == HELD_OUT)
    assert counterparts.split_families({"c": "m", "d": "m", "e": "k"}, {"e": ["c", "d"]})["e"] == HELD_OUT
    assert counterparts.split_rows({"c": ["P"], "d": ["P"], "f": ["P", "Q"]}, {"g": aside})["g"] == HELD_OUT
