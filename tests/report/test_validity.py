"""Validity: the shipped file and its split, the papers' differences by hand, and the analysis of pairs."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
import yaml

from compclip.config import read
from compclip.report import coverage, published
from compclip.report.published import Number
from compclip.report.tables import Column
from compclip.report.validity import analysis, declared, pairs, split
from compclip.report.validity.declared import Counterpart, Declared, Source
from compclip.report.validity.pairs import Pair, Printed
from compclip.report.validity.split import CHOOSING, HELD_OUT
from tests.conftest import ROOT

FILE, TABLES = ROOT / "experiments" / "validity.yaml", ROOT / "experiments" / "published"
GRIDS = [ROOT / "experiments" / "grids" / f"{name}.yaml" for name in ("claims", "field")]
STATED, NUMBERS = declared.read(FILE), published.read(TABLES)
METHODS = {path.stem: read.load(path).grid.methods for path in GRIDS}
KNOWN = coverage.known(ROOT / coverage.GRIDS, ROOT / coverage.PARAMS)


# the shipped file


def test_the_names_of_the_file_are_there():
    """Rows of the grids, papers, tables, rows and columns."""
    declared.check(STATED, KNOWN, NUMBERS, "here")


def test_the_split_follows_the_rule():
    """Written out once more: sorted by hash in each stratum, every other one from the first."""
    raw = yaml.safe_load(FILE.read_text())
    strata: dict[str, list[str]] = {}
    for row, papers in raw["rows"].items():
        strata.setdefault(next(iter(papers)) if len(papers) == 1 else "", []).append(row)
    kinds: dict[str, list[str]] = {}
    for name, own in raw["columns"].items():
        if not own.get("of"):
            kinds.setdefault(own["kind"], []).append(name)
    chosen = {part: set() for part in ("rows", "columns")}
    for part, found in (("rows", strata), ("columns", kinds)):
        for names in found.values():
            names.sort(key=lambda name: hashlib.sha256(name.encode()).hexdigest())
            chosen[part] |= set(names[::2])
    chosen["rows"] |= {row for row, like in raw["same"].items() if like in chosen["rows"]}
    chosen["columns"] |= {
        n for n, own in raw["columns"].items() if own.get("of") and set(own["of"]) <= chosen["columns"]
    }
    for part, names in chosen.items():
        assert set(raw["split"]["choosing"][part]) == names
        listed = raw["split"]["choosing"][part] + raw["split"]["held_out"][part]
        assert sorted(listed) == sorted([*raw[part], *(raw["same"] if part == "rows" else ())])


@pytest.mark.parametrize("chosen", [True, False])
def test_each_half_has_pairs_of_every_paper_and_kind(chosen):
    """Kinds that are made of others alone may be kept aside."""
    prints, of = pairs.printed(STATED, NUMBERS), {f.name: f for f in STATED.families}
    found = {(p.paper, of[c.family].kind) for row in STATED.rows for c in STATED.columns
             if STATED.chosen(row, c) == chosen for name in c.published for p in prints(row, name)}  # fmt: skip
    assert {paper for paper, _ in found} == {n.paper for n in NUMBERS}
    assert {kind for _, kind in found} >= {f.kind for f in STATED.families if not f.of}


@pytest.mark.parametrize("path", GRIDS, ids=lambda p: p.stem)
def test_every_row_of_the_grids_has_a_counterpart_or_a_reason(path):
    rows = [m for m in METHODS[path.stem] if m != "pretrained"]
    assert [row for row in rows if not STATED.sources(row) and not STATED.why("rows", row)] == []
    assert not [row for row in rows if STATED.sources(row) and row in STATED.without["rows"]]


def test_a_published_row_stands_for_the_row_that_its_method_names():
    """Or for the method that trains what the checkpoint of others is; and for one row alone."""
    trained = {
        "released.negclip": "negclip", "released.ce_clip": "ce_clip", "released.gnm_clip": "gnm_clip",
        "released.clove": "clove", "released.dac_llm": "dac", "released.dac_sam": "dac", "released.tsvlc_rb": "svlc",
        "released.con_clip": "con_clip", "released.tripletclip": "triplet_clip",
        "released.crepe_swap": "crepe.swap", "released.crepe_replace": "crepe.replace",
    }  # fmt: skip
    stands = {s: row for row, own in STATED.rows.items() for s in own}
    assert len(stands) == sum(map(len, STATED.rows.values()))
    ours = {m for names in METHODS.values() for m in names} - {"pretrained"} | {"hard_positives.swap_only"}  # withdrawn
    for n in NUMBERS:
        row = "svlc.pos" if n.row == "SVLC+Pos" else trained.get(n.method, n.method)
        assert stands.get(Source(n.paper, n.table, n.row)) == (row if row in ours else None), n


def test_every_published_column_has_a_counterpart_or_a_reason():
    """And a row in the file loses no number for want of a pretrained one."""
    told = {name for c in STATED.columns for name in c.published}
    assert [n.column for n in NUMBERS if n.column not in told and not STATED.why("published", n.column)] == []
    prints, sources = pairs.printed(STATED, NUMBERS), {s for own in STATED.rows.values() for s in own}
    of_rows = [n for n in NUMBERS if Source(n.paper, n.table, n.row) in sources and n.column in told]
    assert sum(len(prints(row, name)) for row in STATED.rows for name in told) == len(of_rows)


# the published side, by hand


def number(paper, table, row, method, value, column="sugarcrepe/swap", backbone="B", data=""):
    return Number(paper, table, row, method, backbone, data, *column.split("/"), str(value))


def stated(rows, columns, baselines=None, same=None):
    families = tuple(declared.Family(name, "k", (), (Counterpart(name, name, tuple(p), False),))
                     for name, p in columns.items())  # fmt: skip
    halves = dict.fromkeys((*rows, *(same or {})), CHOOSING)
    without = {part: {} for part in declared.WITHOUT}
    return Declared(
        "raw", rows, same or {}, baselines or {}, families, without, halves, dict.fromkeys(columns, CHOOSING)
    )


def test_a_difference_is_to_the_pretrained_model_of_its_table_and_backbone():
    """Of another table where the file says so; without one there is no difference."""
    numbers = [
        number("P", "1", "CLIP", "pretrained", 50), number("P", "1", "CLIP L", "pretrained", 60, backbone="L"),
        number("P", "1", "N", "negclip", 53.5), number("P", "1", "N", "negclip", 61, backbone="L"),
        number("P", "1", "N", "negclip", 70, backbone="H"), number("P", "2", "N2", "negclip", 49),
        number("Q", "1", "CLIP", "pretrained", 10), number("P", "1", "N", "negclip", 5, column="a/b"),
    ]  # fmt: skip
    rows = {"negclip": (Source("P", "1", "N"), Source("P", "2", "N2"))}
    found = pairs.printed(stated(rows, {}, {("P", "2"): "1"}), numbers)("negclip", "sugarcrepe/swap")
    assert [(p.table, p.backbone, p.difference) for p in found] == [("1", "B", 3.5), ("1", "L", 1.0), ("2", "B", -1.0)]
    assert pairs.printed(stated(rows, {}), numbers)("negclip", "a/b") == ()
    alike = stated(rows, {}, {("P", "2"): "1"}, {"other": "negclip"})
    assert pairs.printed(alike, numbers)("other", "sugarcrepe/swap") == found


def test_the_mean_goes_over_tables_then_columns_then_models_then_papers():
    """A model that three tables print weighs as much as one that is printed once."""

    def one(paper, table, data, column, gap):
        return Printed(paper, table, "r", "m", "B", data, column, gap)

    often = [one("P", table, "coco", "c", gap) for table, gap in (("1", 1.0), ("2", 2.0), ("3", 3.0))]  # 2
    other = [one("P", "1", "coco", "d", 6.0)]  # with it (2 + 6) / 2 = 4
    model, paper = [one("P", "1", "laion", "c", 8.0)], [one("Q", "1", "coco", "c", 0.0)]
    assert pairs.combine(often) == 2.0
    assert pairs.combine([*often, *other]) == 4.0
    assert pairs.combine([*often, *other, *model]) == 6.0
    assert pairs.combine([*often, *other, *model, *paper]) == 3.0


# analysis of pairs


def pair(row, column, theirs, *ours, detail=False, family=None, score=False, lower=False):
    counterpart = Counterpart(column, family or column, (column,), detail)
    unit = Column(*column.split("/"), lower=lower, score=score)
    told = (Printed("P", "1", row, "m", "B", "", column, theirs),)
    return Pair(row, counterpart, "k", unit, True, tuple(range(len(ours))), tuple(map(float, ours)), told)


def world(way, rows=8, columns=("a/x", "b/x", "c/x")):
    """Each column's differences in an order of its own; ours follow it by `way`."""
    rng = np.random.default_rng(5)
    gaps = rng.permutation(rows * len(columns)).reshape(rows, len(columns)) + 1.0
    return [pair(f"m{i}", c, gaps[i, j], way(gaps[i, j])) for i in range(rows) for j, c in enumerate(columns)]


def test_a_world_that_orders_as_the_papers_do():
    """1 everywhere, with an interval of nothing else; the opposite is -1, and every sign is the other."""
    for sign in (1, -1):
        found = analysis.summary("s", world(lambda v, sign=sign: sign * v**3), draws=200)
        for both in (found.within, found.raw, *(line.found for line in found.columns)):
            assert [both.rho.value, both.rho.low, both.rho.high] == pytest.approx([sign] * 3)
            assert [both.tau.value, both.tau.low, both.tau.high] == pytest.approx([sign] * 3)
        assert (found.pairs, found.methods, len(found.columns), len(found.rows)) == (24, 8, 3, 8)
        assert found.signs.value == found.signs.low == found.signs.high == (sign > 0)


def test_ranks_within_columns_do_not_see_how_far_columns_lie_apart():
    """One column gains and one loses under every method, and the scenes turn that: raw falls, within does not."""
    made = world(lambda v: v, columns=("a/x", "b/x"))
    moved = [replace(p, ours=(p.mean + (-100 if p.column.name == "a/x" else 100),),
                     printed=(replace(p.printed[0], difference=p.published + (100 if p.column.name == "a/x" else -100)),))
             for p in made]  # fmt: skip
    before, after = analysis.summary("s", made, draws=50), analysis.summary("s", moved, draws=50)
    assert before.within.rho.value == after.within.rho.value == pytest.approx(1)
    assert before.raw.rho.value == pytest.approx(1)
    assert after.raw.rho.value < -0.4
    assert after.signs.value == 0


def test_details_and_scores_have_lines_and_no_part_in_what_they_would_distort():
    """A detail is in neither pooled number, a score in the one within columns."""
    made = world(lambda v: v)
    detail = [pair(f"m{i}", "a/part", i, -i, detail=True, family="a/x") for i in range(1, 9)]
    score = [pair(f"m{i}", "d/score", i, -i, score=True) for i in range(1, 9)]
    alone = analysis.summary("s", made, draws=50)
    found = analysis.summary("s", [*made, *detail], draws=50)
    assert (found.pairs, found.within.rho.value, found.raw) == (24, alone.within.rho.value, alone.raw)
    line = next(line for line in found.columns if line.detail)
    assert (line.name, line.pairs, line.found.rho.value) == ("a/part", 8, pytest.approx(-1))
    scored = analysis.summary("s", [*made, *score], draws=50)
    assert scored.raw == alone.raw
    assert scored.within.rho.value == pytest.approx(0.5)  # three columns of four


def test_less_is_better_is_turned_on_both_sides():
    made = pair("m", "a/gap", 4.0, -2.0, lower=True)
    assert (made.published, made.mean) == (-4.0, -2.0)  # ours is turned where it is measured
    assert pairs._turned(3.0, Column("a", "gap", lower=True)) == -3.0


def test_by_method_is_over_columns_of_like_size():
    """A column that is ten times as wide counts as much: m0 gains most where the papers have it gain most."""
    gaps = {"a/x": 1.0, "b/x": 20.0, "c/x": 300.0, "d/x": 4000.0}  # of all methods but m0
    rank = dict(zip(gaps, (4, 3, 2, 1), strict=True))
    made = [pair("m0", c, gap * rank[c], gap * rank[c]) for c, gap in gaps.items()]
    made += [pair(f"m{i}", c, gap, gap) for i in range(1, 6) for c, gap in gaps.items()]
    first = analysis.summary("s", made, draws=50).rows[0]
    assert (first.name, first.pairs, first.found.rho.value) == ("m0", 4, pytest.approx(1))
    assert first.signs.value == 1


def test_the_same_pairs_give_the_same_numbers():
    made = world(math.sin)
    assert analysis.summary("s", made, draws=100) == analysis.summary("s", made, draws=100)


def test_seeds_widen_an_interval():
    """Two seeds that disagree, against their mean alone."""
    made = world(lambda v: v)
    loud = [replace(p, seeds=(0, 1), ours=(p.mean - 9 * (-1) ** i, p.mean + 9 * (-1) ** i)) for i, p in enumerate(made)]
    assert [p.mean for p in loud] == [p.mean for p in made]
    found = analysis.summary("s", loud, draws=400).within.rho
    assert found.value == pytest.approx(1)
    assert found.low < 0.95


def test_halves_by_hand():
    """A stratum of one is choosing; who is made of others needs them all."""
    found = split.of_families({"a": "k", "b": "l", "c": "m", "d": "m", "e": "k"}, {"e": ["a", "b"]})
    assert {found["a"], found["b"], found["e"]} == {CHOOSING}
    assert {found["c"], found["d"]} == {CHOOSING, HELD_OUT}
    aside = next(name for name in "cd" if found[name] == HELD_OUT)
    assert split.of_families({"c": "m", "d": "m", "e": "k"}, {"e": ["c", "d"]})["e"] == HELD_OUT
    assert split.of_rows({"c": ["P"], "d": ["P"], "f": ["P", "Q"]}, {"g": aside})["g"] == HELD_OUT
