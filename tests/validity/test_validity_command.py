"""Validity: the command with and without the held-out half, on results that are made up, and its errors."""

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
from compclip.report import published_coverage, published_numbers
from compclip.runs import run_folder
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL
from compclip.runs.run_folder import Published
from compclip.validity import __main__ as validity_command
from compclip.validity import counterparts, pair_summary, trivial_predictors
from compclip.validity.counterparts import CHOOSING, HELD_OUT, NEW_ROWS
from tests.conftest import ROOT
from tests.report.test_page import Reader
from tests.validity.test_validity import FILE, GRIDS, NUMBERS, STATED, TRANSCRIBED, known_methods

# the command, on results that are made up

SMALL = ("pretrained", "finetune", "fsc_clip", "fsc_clip.lora", "fsc_clip.focal", "fsc_clip.softmax", "negclip",
         "negclip.clic_swap", "clic", "clic.c4", "clic.positives1", "clic.frozen_none", "c2lip", "c2lip.npc", "clic.b1", "clic.b2",
         "fsc_clip.gamma_1", "fsc_clip.gamma_5")  # fmt: skip
METRICS = {
    "sugarcrepe": (COMPOSITION, ("add", "replace", "replace_obj", "swap", "average", "swap/unseen_pairs")),
    "sugarcrepe_pp": (COMPOSITION, ("replace_itt", "replace_tot", "swap_itt", "swap_tot")),
    "retrieval": (RETRIEVAL, ("i2t_recall_at_1", "t2i_recall_at_1", "i2t_recall_at_5", "t2i_recall_at_5")),
    "zeroshot_symbols": (CLASSIFICATION, ("top_1",)),
}
HEADLINE = {"sugarcrepe": ["average"], "sugarcrepe_pp": [], "retrieval": [], "zeroshot_symbols": ["top_1"]}


def project(root: Path) -> Path:
    """The claims' grid cut to a few methods, and results whose numbers are hashes of their places."""
    raw = OmegaConf.load(GRIDS[2])
    raw.grid.methods, raw.evaluate.benchmarks, raw.report.columns = list(SMALL), list(METRICS), ["sugarcrepe/swap"]
    raw.grid.seeds = [0, 1, 2]
    path = root / "grid.yaml"
    path.write_text(OmegaConf.to_yaml(raw))
    params = read.load_params(path)
    for cell in grid.list_cells(params):
        method, train = grid.method_config(params, cell.method)
        published = Published(root, cell)
        config = {"cell": cell.plain, "method": asdict(method), "train": asdict(train)}
        write_atomic(published.trained.config, yaml.safe_dump(json.loads(json.dumps(config))))
        write_atomic(published.trained.metrics, "")
        write_json(published.trained.environment, {})
        for benchmark, (kind, metrics) in METRICS.items():
            seed = 0 if cell.method == "pretrained" else cell.seed
            values = {m: _hashed(cell.method, seed, benchmark, m) for m in metrics}
            head = {
                "benchmark": benchmark,
                "kind": kind,
                "lower": [],
                "scores": [],
                "headline": HEADLINE[benchmark],
                "metrics": values,
            }
            write_json(run_folder.result_path(published.results, benchmark), head)
    return path


def _hashed(*key) -> float:
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:6], 16) / 0xFFFFFF


@pytest.fixture(scope="module")
def project_root(tmp_path_factory) -> Path:
    """The folder of such a project."""
    root = tmp_path_factory.mktemp("validity")
    project(root)
    return root


@pytest.fixture
def run(project_root, tmp_path, monkeypatch):
    """A function that runs the command, and gives its JSON."""
    monkeypatch.setattr(pair_summary.summarize_pairs, "__defaults__", (40,))
    monkeypatch.setattr(trivial_predictors, "DEALS", 4)
    methods = known_methods()  # reading every grid takes a second
    monkeypatch.setattr(published_coverage, "read_grid_methods", lambda **_: methods)
    monkeypatch.setattr(published_numbers, "read_numbers", lambda _: TRANSCRIBED)
    monkeypatch.chdir(ROOT)

    def command(*words, params=None):
        argv = [
            "--params",
            params or project_root / "grid.yaml",
            "--root",
            project_root,
            "--out",
            tmp_path / "out",
            *words,
        ]
        assert validity_command.main(list(map(str, argv))) == 0
        return json.loads((tmp_path / "out" / "validity.json").read_text())

    return command


def by_half(document):
    return {half: [p for p in document["pairs"] if p["half"] == half] for half in (CHOOSING, HELD_OUT, NEW_ROWS)}


def test_only_the_choosing_half_is_read(run, project_root, tmp_path, monkeypatch):
    """Rows that are kept aside may be missing, their columns may hold anything: not a byte of the files changes."""
    document = run()
    assert document["held_out"] == document["new_rows"] == {"revealed": False, "looks": []}
    assert set(document["summaries"]) == {CHOOSING}
    assert by_half(document)[HELD_OUT] == by_half(document)[NEW_ROWS] == []
    rows, columns = ({p[k] for p in document["pairs"]} for k in ("row", "column"))
    assert {STATED.row_halves[r] for r in rows} == {CHOOSING}
    family = {c.name: c.family for c in STATED.columns}
    assert {STATED.family_halves[family[c]] for c in columns} == {CHOOSING}
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    copy = tmp_path / "copy"
    shutil.copytree(project_root, copy)
    for method in SMALL:
        if STATED.row_halves.get(method) in (HELD_OUT, NEW_ROWS):
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
    document = run()
    for p in document["pairs"]:
        benchmark, _, metric = p["column"].partition("/")
        metrics = [f"{way}_recall_at_5" for way in ("i2t", "t2i")] if metric.startswith("mean") else [metric]
        base = np.mean([_hashed("pretrained", 0, benchmark, m) for m in metrics])
        gaps = [100 * (np.mean([_hashed(p["row"], seed, benchmark, m) for m in metrics]) - base) for seed in (0, 1, 2)]
        assert p["ours"] == pytest.approx(np.mean(gaps), abs=1e-5)
        by_seed = [float(text.partition(": ")[2]) for text in p["ours_by_seed"]]
        assert by_seed == pytest.approx(gaps, abs=1e-3)
    swap_pair = next(
        p for p in document["pairs"] if (p["row"], p["column"]) == ("negclip.clic_swap", "sugarcrepe/swap")
    )
    assert len(swap_pair["printed"]) == 2  # Tables 3 and 10, of two backbones
    assert swap_pair["published"] == pytest.approx(
        np.mean([float(text.rpartition(": ")[2]) for text in swap_pair["printed"]])
    )
    rank_sides = []
    main = [p for p in document["pairs"] if not p["detail"]]
    for column in {p["column"] for p in main}:
        column_pairs = [p for p in main if p["column"] == column]
        sides = [np.array([p[side] for p in column_pairs]) for side in ("ours", "published")]
        rank_sides.append([np.sign(v[:, None] - v).sum(axis=1) / 2 / len(column_pairs) for v in sides])
    x, y = np.concatenate(rank_sides, axis=1)
    headline = document["summaries"][CHOOSING]["headline"]
    assert headline["value"] == pytest.approx(x @ y / math.sqrt((x @ x) * (y @ y)))
    assert headline["n"] == len(main) == len(x)
    lines = list(csv.DictReader((tmp_path / "out" / "pairs.csv").read_text().splitlines()))
    assert [(r["row"], r["column"], float(r["ours"])) for r in lines] == [
        (p["row"], p["column"], pytest.approx(p["ours"])) for p in document["pairs"]
    ]


def test_the_page_shows_the_same_and_stands_alone(run, tmp_path):
    document = run()
    html = (tmp_path / "out" / "validity.html").read_text()
    first, columns, rows, *_ = Reader(html).tables
    summary = document["summaries"][CHOOSING]
    line = dict(zip(first[0], first[1], strict=True))
    counts = [line[name] for name in ("pairs of", "pairs", "methods", "families", "kinds")]
    assert counts == ["choosing", *map(str, (summary["pairs"], len(rows) - 1, summary["families"], summary["kinds"]))]
    for name, estimate in (
        ("ρ withincolumns", summary["headline"]), ("ceiling", document["ceiling"]["within"]),
        ("ρ inpoints", summary["by_family"]["raw"]["rho"]),
        ("column's mean,in points", summary["predictors"]["column_means"]["by_family"]["raw"]["rho"]),
    ):  # fmt: skip
        text = f"{estimate['value']:+.2f}[{estimate['low']:+.2f}, {estimate['high']:+.2f}]".replace("-", "−")
        assert line[name].startswith(text), name
    always_up = summary["predictors"]["always_up"]["signs"]["value"]
    assert line["always up,same sign"].startswith(f"{100 * always_up:.0f} %")
    published = [p["published"] for p in document["pairs"] if not p["detail"] and p["published"]]
    assert always_up == pytest.approx(np.mean(np.array(published) > 0))
    assert summary["of_ceiling"] == pytest.approx(summary["headline"]["value"] / document["ceiling"]["within"]["value"])
    assert line["goal"] == summary["verdict"]["word"] == "missed"
    assert f"missed: {'; '.join(summary['verdict']['reasons'])}".replace("'", "&#39;") in html
    assert {line[0] for line in columns[1:]} == set(document["summaries"][CHOOSING]["columns"])
    assert {line[0] for line in rows[1:]} == set(document["summaries"][CHOOSING]["rows"])
    assert not re.search(r"<script|src=|href=\"(?!#)|url\(|@import", html)
    main_pairs = [p for p in document["pairs"] if not p["detail"]]
    assert len(re.findall(r"<title>[^<]+: published ", html)) >= len(main_pairs)
    assert "held out" not in "".join(cell for table in (first, columns, rows) for line in table for cell in line)


def test_the_table_as_markdown(run, tmp_path):
    """A line for each half and its parts, with the numbers of the JSON; parts have no verdict."""
    document = run("--held-out", "--new-rows")
    head, _, *lines = (tmp_path / "out" / "validity.md").read_text().partition("\n\n")[0].splitlines()
    names = [name.strip() for name in head.strip("|").split("|")]
    table = [dict(zip(names, (c.strip() for c in line.strip("|").split("|")), strict=True)) for line in lines]
    assert [line["pairs of"] for line in table] == [name.replace("_", " ") for name in document["summaries"]]
    for line, summary in zip(table, document["summaries"].values(), strict=True):
        headline, share = summary["headline"], summary["of_ceiling"]
        assert line["ρ within columns"] == (
            f"{headline['value']:+.2f} [{headline['low']:+.2f}, {headline['high']:+.2f}]".replace("-", "−")
        )
        assert line["of the ceiling"] == f"{100 * share:.0f} %".replace("-", "−")
        assert line["same sign"].startswith(f"{100 * summary['signs']['value']:.0f} % [")
        verdict = summary["verdict"]
        assert line["goal"] == ("" if verdict is None else f"missed: {'; '.join(verdict['reasons'])}")
    assert [line["goal"] != "" for line in table] == [True, True, False, False, False, True, False, False]


def test_nothing_is_dropped_silently(run):
    """Every row and column, ours or published, is in a pair or has a word."""
    document = run()
    reasons = {
        section: {entry["name"]: entry["why"] for entry in names} for section, names in document["unpaired"].items()
    }
    rows = {p["row"] for p in document["pairs"]}
    assert rows | set(reasons["rows"]) == set(SMALL) - {"pretrained"}
    assert not rows & set(reasons["rows"])
    assert rows | set(reasons["rows"]) | set(reasons["absent"]) == set(STATED.row_halves)
    assert reasons["rows"]["c2lip"] == "kept aside"
    ours = {f"{b}/{m}" for b, (_, metrics) in METRICS.items() for m in metrics}
    assert ours <= {p["column"] for p in document["pairs"]} | set(reasons["columns"])
    assert reasons["columns"]["sugarcrepe/add"] == "kept aside"
    assert reasons["columns"]["winoground/text"] == "no run has it"
    printed = {(n.paper, n.table, n.row) for n in NUMBERS if n.method != "pretrained"}
    paired = {text.partition(" (")[0] for p in document["pairs"] for text in p["printed"]}
    explained_rows = set(reasons["published_rows"])
    assert all(
        f"{p}, {t}: {r}" in explained_rows or f"{p}, {t}: {r}".partition(" (")[0] in paired for p, t, r in printed
    )
    assert {n.column for n in NUMBERS} == {
        *reasons["published_columns"], *(t.partition("): ")[0] and c for p in document["pairs"] for t in p["printed"]
                                      for c in [re.search(r"\), (\S+): ", t)[1]])}  # fmt: skip
    assert all(word and word != "no word of it in the file" for entry in reasons.values() for word in entry.values())


def test_the_held_out_half_is_shown_on_demand_and_remembered(run, project_root, tmp_path, capsys):
    """A warning, its own numbers, and a record that a later look does not wipe out."""
    first_document = run()
    assert "warning" not in capsys.readouterr().err
    document = run("--held-out")
    assert "looked at now" in capsys.readouterr().err
    assert document["held_out"]["revealed"]
    assert list(document["summaries"])[:2] == [CHOOSING, HELD_OUT]
    halves = by_half(document)
    assert halves[CHOOSING] == first_document["pairs"]
    assert document["summaries"][CHOOSING] == first_document["summaries"][CHOOSING]
    assert {p["row"] for p in halves[HELD_OUT]} >= {"clic", "c2lip", "fsc_clip"}
    sizes = {name: s["pairs"] for name, s in document["summaries"].items()}
    assert sum(sizes.values()) == sizes[CHOOSING] + 2 * sizes[HELD_OUT]
    assert "The held-out pairs are shown" in (tmp_path / "out" / "validity.html").read_text()
    again = run()
    assert again["held_out"] == {"revealed": False, "looks": document["held_out"]["looks"]}
    assert "The held-out pairs were looked at before" in (tmp_path / "out" / "validity.html").read_text()
    copy = tmp_path / "copy"
    shutil.copytree(project_root, copy)
    path = next(copy.glob("results/fsc_clip/*/retrieval.json"))
    raw = json.loads(path.read_text())
    write_json(path, raw | {"metrics": dict.fromkeys(raw["metrics"], 0.5)})
    capsys.readouterr()
    copy_document = run("--held-out", "--root", copy)
    first_look, second_look = copy_document["held_out"]["looks"]
    assert [first_look] == document["held_out"]["looks"] and second_look != first_look
    assert "before with other results" in capsys.readouterr().err


def test_new_rows_are_a_half_of_their_own(run, tmp_path, capsys):
    """The others keep every number; a look at one half is none at the other; each family has its line."""
    both = run("--held-out")
    capsys.readouterr()
    document = run("--held-out", "--new-rows")
    assert "the new rows are looked at now" in capsys.readouterr().err
    halves, before = by_half(document), by_half(both)
    assert {p["row"] for p in halves[NEW_ROWS]} == {"clic.b1", "clic.b2", "fsc_clip.gamma_1", "fsc_clip.gamma_5"}
    assert halves[CHOOSING] == before[CHOOSING] and halves[HELD_OUT] == before[HELD_OUT]
    new_names = [NEW_ROWS, "new rows: CLIC", "new rows: FSC-CLIP"]
    assert document["summaries"] == both["summaries"] | {name: document["summaries"][name] for name in new_names}
    sizes = [document["summaries"][name]["pairs"] for name in new_names]
    assert sizes[0] == sum(sizes[1:]) > 0
    assert document["held_out"] == both["held_out"] and len(document["new_rows"]["looks"]) == 1
    alone = run("--new-rows")
    assert by_half(alone)[HELD_OUT] == [] and alone["new_rows"] == document["new_rows"]
    assert "were looked at before" in (tmp_path / "out" / "validity.html").read_text()


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
        ("goal: {of_ceiling: 0.5, ", "goal: {of_ceiling: 1.5, ", r"goal.of_ceiling=1.5: must be"),
        ("beats: column_means}", "beats: column_mean}", r"goal.beats: unknown beats 'column_mean'; did you mean 'column_means'"),
        ("new_rows:\n    - clic.b1\n", "new_rows:\n    - clic.b9\n", r"split.new_rows: unknown row 'clic.b9'; did you mean"),
        ("headline: within_columns", "headline: within", r"unknown headline 'within'; did you mean 'within_columns'"),
        ("\nrows:\n", "\nrow: {}\nrows:\n", r"unknown key 'row'; did you mean 'rows'"),
        ("\n  c2lip.npc:\n", "\n  c2lip.ncp:\n", r"split.choosing.rows: unknown row 'c2lip.npc'; did you mean 'c2lip.ncp'"),
        ("Table 5: [\"+ npc\"]", "Table 5: [\"+ ncp\"]", r"rows.c2lip.npc.C2LIP.Table 5: unknown published row '\+ ncp'"),
        ("same: {finetune.sigmoid: c2lip.finetune}", "same: {finetune.sigmoid: c2lip.fine}", r"same.finetune.sigmoid: .*'c2lip.fine'"),
        ("same: {finetune.sigmoid: c2lip.finetune}", "same: {c2lip.npc: c2lip.finetune}", "has published rows of its own"),
        ("{winoground/text: [winoground/text]}", "{winoground/text: [winoground/txt]}", r"unknown published column 'winoground/txt'; did you mean 'winoground/text'"),
        ("{winoground/text: [winoground/text]}", "{winoground/text: winoground/text}", r"winoground/text='winoground/text': must be a list"),
        ("{winoground/text: [winoground/text]}", "{winoground/image: [winoground/text]}", r"winoground/image stands twice"),
        ("of: [Winoground text, ", "of: [Winoground txt, ", r"columns.Winoground group.of: unknown family 'Winoground txt'"),
        ("    components: main\n", "    components: man\n", r"baselines.FSC-CLIP.components: unknown table 'man'; did you mean 'main'"),
        ("    Table A2: Table 5\n", "    Table A3: Table 5\n", r"baselines.C2LIP: unknown table 'Table A3'; did you mean 'Table A5'"),
        ("    Table A2: Table 5\n", "    Table 2: Table 5\n", r"C2LIP, Table A2: has no pretrained row; name its table in baselines"),
        ("split:\n  choosing:\n    rows:\n", "split:\n  choosing:\n    rows: 5\n    more:\n", r"split.choosing: unknown key 'more'"),
        ("  CE-CLIP: [ce_clip]\n", "", r"row_families: ce_clip is in none; add it, by itself if it is like no other"),
        ("  DAC: [dac]\n", "  DAC: [dac, clove]\n", r"row_families.DAC: clove is in CLoVe too; keep one"),
        ("  DAC: [dac]\n", "  DAC: [dca]\n", r"row_families.DAC: unknown row 'dca'; did you mean 'dac'"),
        ("      - c2lip.npc\n", "", r"split.choosing.rows: c2lip.npc is missing; add it"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_told_in_one_line(run, tmp_path, old, new, message):
    with pytest.raises(UserError, match=message) as error:
        run("--pairs", edited(tmp_path, (old, new)))
    assert "\n" not in str(error.value)
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
def test_a_grid_that_does_not_fit(run, project_root, tmp_path, change, message):
    raw = OmegaConf.load(project_root / "grid.yaml")
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
        counterparts.check_counterparts(wrong, known_methods(), NUMBERS, "here")
