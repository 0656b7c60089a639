"""Validity: the shipped file and its split, the papers' differences by hand, the command with and without the held-out
half on results that are made up, and its errors.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.base.files import write_atomic, write_json
from compclip.config import grid, read
from compclip.report import __main__ as report_command
from compclip.report import coverage, published
from compclip.report.published import Number
from compclip.report.tables import Column
from compclip.report.validity import analysis, declared, pairs, split
from compclip.report.validity.declared import Counterpart, Declared, Source
from compclip.report.validity.pairs import Pair, Printed
from compclip.report.validity.split import CHOOSING, HELD_OUT
from compclip.runs import folder
from compclip.runs.folder import Published
from compclip.runs.items import CLASSIFICATION, COMPOSITION, RETRIEVAL
from tests.conftest import ROOT
from tests.report.test_page import Reader

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
    ours = {m for names in METHODS.values() for m in names} - {"pretrained"}
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


# the command, on results that are made up

SMALL = ("pretrained", "finetune", "fsc_clip", "fsc_clip.lora", "fsc_clip.focal", "fsc_clip.softmax", "negclip",
         "negclip.clic_swap", "clic", "clic.c4", "clic.positives1", "clic.frozen_none", "c2lip", "c2lip.npc")  # fmt: skip
METRICS = {
    "sugarcrepe": (COMPOSITION, ("add", "replace", "replace_obj", "swap", "average", "swap/unseen_pairs")),
    "sugarcrepe_pp": (COMPOSITION, ("replace_itt", "replace_tot", "swap_itt", "swap_tot")),
    "retrieval": (RETRIEVAL, ("i2t_recall_at_1", "t2i_recall_at_1", "i2t_recall_at_5", "t2i_recall_at_5")),
    "zeroshot_symbols": (CLASSIFICATION, ("top_1",)),
}


def project(root: Path) -> Path:
    """The claims' grid cut to a few methods, and results whose numbers are hashes of their places."""
    raw = OmegaConf.load(GRIDS[0])
    raw.grid.methods, raw.evaluate.benchmarks, raw.report.columns = list(SMALL), list(METRICS), ["sugarcrepe/swap"]
    raw.grid.seeds = [0, 1, 2]
    path = root / "grid.yaml"
    path.write_text(OmegaConf.to_yaml(raw))
    params = read.load(path)
    for cell in grid.cells(params):
        method, train = grid.method_config(params, cell.method)
        place = Published(root, cell)
        config = {"cell": cell.plain, "method": asdict(method), "train": asdict(train)}
        write_atomic(place.trained.config, yaml.safe_dump(json.loads(json.dumps(config))))
        write_atomic(place.trained.metrics, "")
        write_json(place.trained.environment, {})
        for benchmark, (kind, metrics) in METRICS.items():
            seed = 0 if cell.method == "pretrained" else cell.seed
            values = {m: _hashed(cell.method, seed, benchmark, m) for m in metrics}
            head = {"benchmark": benchmark, "kind": kind, "lower": [], "scores": [], "metrics": values}
            write_json(folder.result(place.results, benchmark), head)
    return path


def _hashed(*place) -> float:
    return int(hashlib.sha256(repr(place).encode()).hexdigest()[:6], 16) / 0xFFFFFF


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """The folder of such a project."""
    root = tmp_path_factory.mktemp("validity")
    project(root)
    return root


@pytest.fixture
def run(made, tmp_path, monkeypatch):
    """A function that runs the command, and gives its JSON."""
    monkeypatch.setattr(analysis.summary, "__defaults__", (40,))
    monkeypatch.setattr(coverage, "known", lambda **_: KNOWN)  # reading every grid takes a second
    monkeypatch.setattr(published, "read", lambda _: NUMBERS)
    monkeypatch.chdir(ROOT)

    def command(*words, params=None):
        argv = ["--params", params or made / "grid.yaml", "--root", made, "--out", tmp_path / "out", *words]
        assert report_command.main(["validity", *map(str, argv)]) == 0
        return json.loads((tmp_path / "out" / "validity.json").read_text())

    return command


def by_half(found):
    return {half: [p for p in found["pairs"] if p["half"] == half] for half in (CHOOSING, HELD_OUT)}


def test_only_the_choosing_half_is_read(run, made, tmp_path, monkeypatch):
    """Rows that are kept aside may be missing, their columns may hold anything: not a byte of the files changes."""
    found = run()
    assert found["held_out"] == {"revealed": False, "looks": []}
    assert set(found["summaries"]) == {CHOOSING}
    assert by_half(found)[HELD_OUT] == []
    rows, columns = ({p[k] for p in found["pairs"]} for k in ("row", "column"))
    assert {STATED.row_halves[r] for r in rows} == {CHOOSING}
    family = {c.name: c.family for c in STATED.columns}
    assert {STATED.family_halves[family[c]] for c in columns} == {CHOOSING}
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    for method in SMALL:
        if STATED.row_halves.get(method) == HELD_OUT:
            shutil.rmtree(copy / "results" / method)
            shutil.rmtree(copy / "runs" / method)
    for path in copy.glob("results/*/*/sugarcrepe*.json"):
        raw = json.loads(path.read_text())
        aside = [m for m in raw["metrics"] if m in ("add", "average", "replace_itt", "swap_itt")]
        write_json(path, raw | {"metrics": raw["metrics"] | dict.fromkeys(aside, 0.123)})
    run("--root", copy)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == files


def test_the_numbers_are_those_of_the_results(run, tmp_path):
    """A pair's differences by seed, its published mean, and the headline, each made once more."""
    found = run()
    for p in found["pairs"]:
        benchmark, _, metric = p["column"].partition("/")
        metrics = [f"{way}_recall_at_5" for way in ("i2t", "t2i")] if metric.startswith("mean") else [metric]
        base = np.mean([_hashed("pretrained", 0, benchmark, m) for m in metrics])
        gaps = [100 * (np.mean([_hashed(p["row"], seed, benchmark, m) for m in metrics]) - base) for seed in (0, 1, 2)]
        assert p["ours"] == pytest.approx(np.mean(gaps), abs=1e-5)
        by_seed = [float(text.partition(": ")[2]) for text in p["ours_by_seed"]]
        assert by_seed == pytest.approx(gaps, abs=1e-3)
    one = next(p for p in found["pairs"] if (p["row"], p["column"]) == ("negclip.clic_swap", "sugarcrepe/swap"))
    assert len(one["printed"]) == 2  # Tables 3 and 10, of two backbones
    assert one["published"] == pytest.approx(np.mean([float(text.rpartition(": ")[2]) for text in one["printed"]]))
    parts = []
    main = [p for p in found["pairs"] if not p["detail"]]
    for column in {p["column"] for p in main}:
        own = [p for p in main if p["column"] == column]
        sides = [np.array([p[side] for p in own]) for side in ("ours", "published")]
        parts.append([np.sign(v[:, None] - v).sum(axis=1) / 2 / len(own) for v in sides])
    x, y = np.concatenate(parts, axis=1)
    headline = found["summaries"][CHOOSING]["headline"]
    assert headline["value"] == pytest.approx(x @ y / math.sqrt((x @ x) * (y @ y)))
    assert headline["n"] == len(main) == len(x)
    lines = list(csv.DictReader((tmp_path / "out" / "pairs.csv").read_text().splitlines()))
    assert [(r["row"], r["column"], float(r["ours"])) for r in lines] == [
        (p["row"], p["column"], pytest.approx(p["ours"])) for p in found["pairs"]
    ]


def test_the_page_shows_the_same_and_stands_alone(run, tmp_path):
    found = run()
    html = (tmp_path / "out" / "validity.html").read_text()
    first, columns, rows, *_ = Reader(html).tables
    assert first[1][:3] == ["choosing", str(found["summaries"][CHOOSING]["pairs"]), str(len(rows) - 1)]
    assert {line[0] for line in columns[1:]} == set(found["summaries"][CHOOSING]["columns"])
    assert {line[0] for line in rows[1:]} == set(found["summaries"][CHOOSING]["rows"])
    assert not re.search(r"<script|src=|href=\"(?!#)|url\(|@import", html)
    shown = [p for p in found["pairs"] if not p["detail"]]
    assert len(re.findall(r"<title>[^<]+: published ", html)) >= len(shown)
    assert "held out" not in "".join(cell for table in (first, columns, rows) for line in table for cell in line)


def test_nothing_is_dropped_silently(run):
    """Every row and column, ours or published, is in a pair or has a word."""
    found = run()
    left = {part: {own["name"]: own["why"] for own in names} for part, names in found["unpaired"].items()}
    rows = {p["row"] for p in found["pairs"]}
    assert rows | set(left["rows"]) == set(SMALL) - {"pretrained"}
    assert not rows & set(left["rows"])
    assert rows | set(left["rows"]) | set(left["absent"]) == set(STATED.row_halves)
    assert left["rows"]["c2lip"] == "kept aside"
    ours = {f"{b}/{m}" for b, (_, metrics) in METRICS.items() for m in metrics}
    assert ours <= {p["column"] for p in found["pairs"]} | set(left["columns"])
    assert left["columns"]["sugarcrepe/add"] == "kept aside"
    assert left["columns"]["winoground/text"] == "no run has it"
    printed = {(n.paper, n.table, n.row) for n in NUMBERS if n.method != "pretrained"}
    paired = {text.partition(" (")[0] for p in found["pairs"] for text in p["printed"]}
    told = set(left["published_rows"])
    assert all(f"{p}, {t}: {r}" in told or f"{p}, {t}: {r}".partition(" (")[0] in paired for p, t, r in printed)
    assert {n.column for n in NUMBERS} == {
        *left["published_columns"], *(t.partition("): ")[0] and c for p in found["pairs"] for t in p["printed"]
                                      for c in [re.search(r"\), (\S+): ", t)[1]])}  # fmt: skip
    assert all(word and word != "no word of it in the file" for own in left.values() for word in own.values())


def test_the_held_out_half_is_shown_on_demand_and_remembered(run, made, tmp_path, capsys):
    """A warning, its own numbers, and a record that a later look does not wipe out."""
    before = run()
    assert "warning" not in capsys.readouterr().err
    found = run("--held-out")
    assert "looked at now" in capsys.readouterr().err
    assert found["held_out"]["revealed"]
    assert list(found["summaries"])[:2] == [CHOOSING, HELD_OUT]
    halves = by_half(found)
    assert halves[CHOOSING] == before["pairs"]
    assert found["summaries"][CHOOSING] == before["summaries"][CHOOSING]
    assert {p["row"] for p in halves[HELD_OUT]} >= {"clic", "c2lip", "fsc_clip"}
    sizes = {name: s["pairs"] for name, s in found["summaries"].items()}
    assert sum(sizes.values()) == sizes[CHOOSING] + 2 * sizes[HELD_OUT]
    assert "The held-out half is shown" in (tmp_path / "out" / "validity.html").read_text()
    again = run()
    assert again["held_out"] == {"revealed": False, "looks": [found["results"]]}
    assert "was looked at before" in (tmp_path / "out" / "validity.html").read_text()
    copy = tmp_path / "copy"
    shutil.copytree(made, copy)
    path = next(copy.glob("results/fsc_clip/*/retrieval.json"))
    raw = json.loads(path.read_text())
    write_json(path, raw | {"metrics": dict.fromkeys(raw["metrics"], 0.5)})
    capsys.readouterr()
    other = run("--held-out", "--root", copy)
    assert other["held_out"]["looks"] == [found["results"], other["results"]]
    assert "before with other results" in capsys.readouterr().err


# errors, one line each


def edited(tmp_path, *changes):
    text = FILE.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "validity.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("headline: within_columns", "headline: within", r"unknown headline 'within'; did you mean 'within_columns'"),
        ("\nrows:\n", "\nrow: {}\nrows:\n", r"unknown key 'row'; did you mean 'rows'"),
        ("\n  c2lip.npc:\n", "\n  c2lip.ncp:\n", r"split.choosing.rows: unknown row 'c2lip.npc'; did you mean 'c2lip.ncp'"),
        ("Table 5: [\"+ npc\"]", "Table 5: [\"+ ncp\"]", r"rows.c2lip.npc.C2LIP.Table 5: unknown published row '\+ ncp'"),
        ("same: {finetune.sigmoid: c2lip.finetune}", "same: {finetune.sigmoid: c2lip.fine}", r"same.finetune.sigmoid: .*'c2lip.fine'"),
        ("same: {finetune.sigmoid: c2lip.finetune}", "same: {c2lip.npc: c2lip.finetune}", "has published rows of its own"),
        ("{winoground/text: [winoground/text]}", "{winoground/text: [winoground/txt]}", r"unknown published column 'winoground/txt'; did you mean 'winoground/text'"),
        ("{winoground/text: [winoground/text]}", "{winoground/text: winoground/text}", r"must be a list of published columns"),
        ("{winoground/text: [winoground/text]}", "{winoground/image: [winoground/text]}", r"winoground/image stands twice"),
        ("of: [Winoground text, ", "of: [Winoground txt, ", r"columns.Winoground group.of: unknown family 'Winoground txt'"),
        ("    components: main\n", "    components: man\n", r"baselines.FSC-CLIP.components: unknown table 'man'; did you mean 'main'"),
        ("    Table A2: Table 5\n", "    Table A3: Table 5\n", r"baselines.C2LIP: unknown table 'Table A3'; did you mean 'Table A5'"),
        ("    Table A2: Table 5\n", "    Table 2: Table 5\n", r"C2LIP, Table A2: has no pretrained row; name its table in baselines"),
        ("split:\n  choosing:\n    rows:\n", "split:\n  choosing:\n    rows: 5\n    more:\n", r"split.choosing.rows=5: must be a list"),
        ("      - c2lip.npc\n", "", r"split.choosing.rows: c2lip.npc is missing; add it"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_told_in_one_line(run, tmp_path, old, new, message):
    with pytest.raises(UserError, match=message) as told:
        run("--pairs", edited(tmp_path, (old, new)))
    assert "\n" not in str(told.value)
    assert not (tmp_path / "out").exists()


def test_a_row_cannot_be_moved_into_the_other_half(run, tmp_path):
    """What is kept aside is no choice."""
    moved = edited(tmp_path, ("      - c2lip.npc\n", "      - c2lip.npc\n      - clic\n"), ("      - negclip\n      - clic\n", "      - negclip\n"))  # fmt: skip
    with pytest.raises(UserError, match=r"split.choosing.rows: clic: the rule puts it into held_out; move it there"):
        run("--pairs", moved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ["finetune"]}, "has no pretrained"),
        ({"methods": ["pretrained", "c2lip.finetune", "finetune.sigmoid"]}, "stand for the same published rows"),
        ({"data": ["scenes", "more"]}, "has 2 pairs of backbone and data"),
        ({"methods": ["pretrained", "clic"]}, "has a published counterpart that may be shown"),
    ],
)
def test_a_grid_that_does_not_fit(run, made, tmp_path, change, message):
    raw = OmegaConf.load(made / "grid.yaml")
    raw.methods.finetune.variants = {"sigmoid": {"loss": "sigmoid"}}
    raw.data.more = raw.data.scenes
    path = tmp_path / "grid.yaml"
    path.write_text(OmegaConf.to_yaml(OmegaConf.merge(raw, {"grid": change})))
    with pytest.raises(UserError, match=message):
        run(params=path)


def test_an_unknown_method_names_the_nearest():
    """In the rows, and among those without a counterpart."""
    wrong = replace(STATED, without={**STATED.without, "rows": {"con_clip.negation": "why"}})
    with pytest.raises(
        UserError, match=r"without.rows: unknown method row 'con_clip.negation'; did you mean 'con_clip.neg"
    ):
        declared.check(wrong, KNOWN, NUMBERS, "here")


def test_halves_by_hand():
    """A stratum of one is choosing; who is made of others needs them all."""
    found = split.of_families({"a": "k", "b": "l", "c": "m", "d": "m", "e": "k"}, {"e": ["a", "b"]})
    assert {found["a"], found["b"], found["e"]} == {CHOOSING}
    assert {found["c"], found["d"]} == {CHOOSING, HELD_OUT}
    aside = next(name for name in "cd" if found[name] == HELD_OUT)
    assert split.of_families({"c": "m", "d": "m", "e": "k"}, {"e": ["c", "d"]})["e"] == HELD_OUT
    assert split.of_rows({"c": ["P"], "d": ["P"], "f": ["P", "Q"]}, {"g": aside})["g"] == HELD_OUT
