"""The field's numbers, conflicts and signs, recomputed here from the CSV files alone; and what one page holds."""

import csv
import functools
import re
from collections import defaultdict
from dataclasses import replace
from fnmatch import fnmatchcase
from types import SimpleNamespace

import pytest
import yaml
from matplotlib.text import Text
from PIL import Image

from compclip.__main__ import main
from compclip.base.errors import UserError
from compclip.field import __main__ as field_command
from compclip.field import field_page
from compclip.field.published_field import read_facts, read_field
from tests import fake_runs
from tests.conftest import ROOT

FOLDER = ROOT / "experiments" / "published"
CLAIMS = ROOT / "experiments" / "claims.yaml"


@functools.cache
def results():
    """The field as the command reads it."""
    return field_page.load_field(FOLDER, CLAIMS)


@functools.cache
def facts():
    """field.yaml, read anew."""
    return yaml.safe_load((FOLDER / "field.yaml").read_text(encoding="utf-8"))


@functools.cache
def printed_rows():
    """Every line of the papers' CSV files, with the weights that it is of."""
    rows = []
    for path in sorted(FOLDER.glob("*.csv")):
        for row in csv.DictReader(path.open(encoding="utf-8")):
            name = f"{row['paper']}: {row['method']}: {row['data']}"
            names = [w for pattern, w in facts()["released_by_authors"].items() if fnmatchcase(name, pattern)]
            is_shared = row["method"] == "pretrained" or row["method"].startswith("released.")
            weights = row["method"] if is_shared else (names or [""])[0]
            rows.append(row | {"weights": weights, "activation": row.get("activation") or ""})
    return rows


@functools.cache
def listed_rows():
    """Every number of the list of models, in the same form."""
    rows = []
    for line in csv.DictReader((FOLDER / "models" / "vl_compo.csv").open(encoding="utf-8")):
        weights, backbone = facts()["same_weights"].get(f"{line['model']}, {line['weights']}", ("", ""))
        for column in list(line)[3:]:
            benchmark, _, metric = column.partition("/")
            if line[column]:
                head = {"paper": "vl_compo", "method": weights, "backbone": backbone, "data": "", "activation": ""}
                number = {"benchmark": benchmark, "metric": metric, "value": line[column], "weights": weights}
                rows.append(head | number)
    return rows


def is_other_mean(row):
    """Whether field.yaml says that a number is another mean than its column's."""
    name = f"{row['paper']}: {row['benchmark']}/{row['metric']}: {row['method']}"
    fitting = [cause for cause in facts()["causes"] if fnmatchcase(name, cause["numbers"])]
    return bool(fitting) and fitting[0].get("is_mean", False)


def test_conflicts_are_those_of_the_files():
    """How many are compared, apart, and apart by the right activation and mean: counted here from the lines."""
    groups = defaultdict(dict)
    for row in [*printed_rows(), *listed_rows()]:
        if row["weights"]:
            key = (row["weights"], row["backbone"], row["benchmark"], row["metric"])
            groups[key].setdefault((row["paper"], row["activation"]), row)
    compared = apart = as_trained = 0
    for rows in groups.values():
        if len({paper for paper, _ in rows}) < 2 or all(is_other_mean(row) for row in rows.values()):
            continue
        compared += 1
        values = [float(row["value"]) for row in rows.values()]
        right = [float(r["value"]) for r in rows.values() if not r["activation"] and not is_other_mean(r)]
        apart += max(values) - min(values) > 0.5 + 1e-9
        as_trained += bool(right) and max(right) - min(right) > 0.5 + 1e-9
    assert len(results().comparisons) == compared
    assert len(results().conflicts) == apart
    assert sum(c.apart_as_trained > 0.5 for c in results().conflicts) == as_trained
    assert apart > as_trained > 0


@pytest.mark.parametrize(
    ("weights", "backbone", "column", "values"),
    [
        ("released.dac_llm", "ViT-B/32", "retrieval_flickr30k/t2i_recall_at_1", {"CLIC": 53.2, "FSC-CLIP": 64.6}),
        ("released.con_clip", "ViT-B/32", "sugarcrepe/replace_rel", {"CLIC": 66.3, "C2LIP": 60.1}),
        ("pretrained", "ViT-B/32", "sugarcrepe_pp/swap_att_tot", {"CLIC": 32.7, "C2LIP": 35.6}),
        ("released.clic_laion", "ViT-B/16", "retrieval_coco/i2t_recall_at_5", {"CLIC": 77.6, "C2LIP": 71.9}),
    ],
)
def test_conflicts_that_were_read_in_both_papers(weights, backbone, column, values):
    """Each number is so in its paper's table."""
    matching = [c for c in results().comparisons if (c.weights, c.backbone, c.column) == (weights, backbone, column)]
    readings = {}
    for text in matching[0].printed.split("; "):
        readings[text.partition(" (")[0]] = float(text.rpartition(" ")[2])
    assert values.items() <= readings.items()
    assert matching[0] in results().conflicts


def test_a_cause_explains_what_it_can():
    """GELU explains NegCLIP's ImageNet, and our scorer would give the others' number; a cut caption no ten points."""
    by_key = {(c.weights, c.backbone, c.column): c for c in results().comparisons}
    negclip = by_key["released.negclip", "ViT-B/32", "zeroshot_imagenet/top_1"]
    assert field_page.WRONG_ACTIVATION in negclip.cause
    assert negclip.expected == "60.9 to 60.93"
    pretrained = by_key["pretrained", "ViT-B/32", "retrieval_coco/t2i_recall_at_5"]
    assert pretrained.cause.startswith("CLIC: captions")
    assert not pretrained.cause.endswith(field_page.NOT_ALL)
    far = by_key["released.clic_laion", "ViT-B/16", "retrieval_coco/i2t_recall_at_5"]
    assert far.cause.endswith(field_page.NOT_ALL)
    assert far.expected == ""


def test_directions_that_look_exchanged():
    """CLIC's Recall of the two DAC checkpoints is nearer to FSC-CLIP's with the directions exchanged, where declared."""
    numbers = {}
    for row in printed_rows():
        key = (row["paper"], row["weights"], row["benchmark"], row["metric"])
        numbers.setdefault(key, float(row["value"]))
    declared = [("dac_llm", "retrieval_coco", 5), ("dac_llm", "retrieval_flickr30k", 1)]
    declared += [("dac_sam", "retrieval_flickr30k", 1), ("dac_sam", "retrieval_flickr30k", 5)]
    for weights, benchmark, k in declared:
        key = (f"released.{weights}", benchmark)
        clic, other = (
            [numbers[paper, *key, f"{way}_recall_at_{k}"] for way in ("i2t", "t2i")] for paper in ("CLIC", "FSC-CLIP")
        )
        as_printed = abs(clic[0] - other[0]) + abs(clic[1] - other[1])
        exchanged = abs(clic[1] - other[0]) + abs(clic[0] - other[1])
        assert exchanged < as_printed / 2


SUMMARY_ENDINGS = {
    "summary/ZS": ("/top_1",),
    "summary/I2T": ("/i2t_recall_at_1", "/i2t_recall_at_5"),
    "summary/T2I": ("/t2i_recall_at_1", "/t2i_recall_at_5"),
}


def recompute_signs():
    """Count contexts and signs of each inequality from the lines: (claim, inequality) -> (contexts, holding)."""
    models = {}
    for row in [*printed_rows(), *listed_rows()]:
        if row["method"] and not row["activation"]:
            key = (row["paper"], row["method"], row["backbone"], row["data"])
            models.setdefault(key, {}).setdefault(f"{row['benchmark']}/{row['metric']}", float(row["value"]))
    every = [*printed_rows(), *listed_rows()]
    trained = {(row["paper"], row["method"]) for row in every}
    named = defaultdict(list)
    for paper, method, backbone, data in models:
        suffix = "_" + "_".join(re.findall("[a-z0-9]+", data.lower()))
        name = method.removeprefix("released.").removesuffix(suffix if data else "\0")
        if not (method.startswith("released.") and (paper, name) in trained):
            named[name].append((paper, method, backbone, data))
    counts = {}
    for claim, section in yaml.safe_load(CLAIMS.read_text(encoding="utf-8")).items():
        for text in section["holds_if"]:
            comparison, _, column = text.partition(" on ")
            left, sign, right, *margin = comparison.split(" ")
            gaps = []
            for a in named[left]:
                for b in named[right]:
                    if (a[0], a[2]) == (b[0], b[2]) and (a[3] == b[3] or b[1] == "pretrained"):
                        shared = models[a].keys() & models[b].keys()
                        like = [c for c in shared if c.endswith(SUMMARY_ENDINGS.get(column, ("\0",)))]
                        columns = [column] if column in shared else like
                        if columns:
                            gaps.append(sum(models[a][c] - models[b][c] for c in columns) / len(columns))
            limit = float("".join(margin)) if margin else 0.0
            holding = sum((gap > limit if sign == ">" else gap < limit) for gap in (round(g, 4) for g in gaps))
            counts[claim, text] = (len(gaps), holding)
    return counts


def test_signs_are_those_of_the_files():
    """Of every inequality, in how many contexts it is printed and holds."""
    counts = {}
    for claim, inequality, contexts, _ in field_page.summarize_claims(results()):
        counts[claim.name, inequality] = (len(contexts), sum(context.holds for context in contexts))
    assert counts == recompute_signs()


def test_which_findings_one_source_prints():
    """CLIC's are printed by C2LIP too; what only a marked row prints is not counted, and is named."""
    by_claim = defaultdict(set)
    for context in results().contexts:
        if not context.is_wrong:
            by_claim[context.claim].add(context.source)
    assert field_page.count_lone_claims(results()) == sum(len(sources) == 1 for sources in by_claim.values())
    assert by_claim["clic_raises_both_benchmarks"] == {"C2LIP", "CLIC"}
    marked = [c for c in results().contexts if c.claim == "negatives_lower_the_caption_s_score"]
    assert marked
    assert all(context.is_wrong for context in marked)


def test_every_number_is_in_the_tables():
    """Each line of the CSV files once, with its paper and table."""
    frame = field_page.make_frames(results())["numbers"]
    papers = frame[frame.paper != "vl_compo"]
    columns = ["paper", "table", "row", "backbone", "data", "benchmark", "metric"]
    ours = sorted(zip(*(papers[c] for c in columns), papers.value, strict=True))
    assert ours == sorted((*(row[c] for c in columns), float(row["value"])) for row in printed_rows())
    assert len(frame) == len(papers) + len(listed_rows())


def test_no_axis_mixes_means():
    """An axis has a printed column or the mean of printed subsets; SugarCrepe's pooled numbers and marked rows have none."""
    field = results().published
    by_key = {(m.source, m.row, m.backbone, m.is_wrong): m for m in field.models}
    clic = by_key["CLIC", "CLIC-LAION", "ViT-B/32", False]
    kinds = [("add", 2754), ("replace", 3846), ("swap", 911)]
    records = {"add_obj": 2062, "add_att": 692, "replace_obj": 1652, "replace_att": 788, "replace_rel": 1406}
    records |= {"swap_obj": 245, "swap_att": 666}
    values = {s: float(clic.numbers[f"sugarcrepe/{s}"].value) for s in records}
    means = [sum(values[s] * n for s, n in records.items() if s.startswith(kind)) / total for kind, total in kinds]
    assert field.measure(clic, "sugarcrepe") == pytest.approx(sum(means) / 3)
    assert field.measure(by_key["SugarCrepe", "CLIP finetuned", "ViT-B/32", False], "sugarcrepe") is None
    for _, _, panels in field_page.draw_pictures(field):
        assert not any(point.model.is_wrong for panel in panels for point in panel.points)


def test_arrows_begin_at_the_same_source():
    """At its pretrained model on the same backbone; a model from random weights has none, an ablation is small."""
    field = results().published
    panels = field_page.list_panels(field, field.facts.pictures["SugarCrepe"], "ViT-B/32")
    points = {(p.model.source, p.model.row, p.model.data): p for p in panels[0].points}
    bases = {p.model.source: (p.x, p.y) for p in panels[0].points if p.model.method == "pretrained"}
    assert points["CLIC", "CLIC-LAION", "LAION"].base == bases["CLIC"]
    assert points["TripletCLIP", "TripletCLIP", ""].base == bases["TripletCLIP"]
    assert points["TripletCLIP", "TripletCLIP", "CC3M"].base is None
    counts = field_page.count_numbers(field, panels)
    assert counts["papers"] == len({p.model.source for panel in panels for p in panel.points} - {"vl_compo"})


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """All files, by the command, in a folder without runs."""
    folder = tmp_path_factory.mktemp("field")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "experiments").symlink_to(ROOT / "experiments")
        assert main(["field", "--out", "out"]) == 0
        assert main(["field", "--picture", "a.png"]) == 0
    return folder


def test_the_page_is_one_file(written):
    """No script, nothing from elsewhere; picture first, then folded sections with every conflict and every sign."""
    text = (written / "out" / "index.html").read_text(encoding="utf-8")
    assert not re.search("<(script|img|link)", text)
    assert not re.search(r"""(href|src)="(?!#)|url\((?!#)""", text)
    assert re.findall(r'<table|<div[^>]*class="scroll"', text) == ['<div class="scroll"', "<table"] * text.count(
        "<table"
    )
    names, sections = zip(*(piece.split('"', 1) for piece in text.split('<details id="')[1:]), strict=True)
    assert names == ("pictures", "conflicts", "claims", "numbers")
    assert not any(section.partition(">")[0].endswith("open") for section in sections)
    assert sections[1].count("<tr") == 1 + len(results().conflicts)
    assert sections[2].count("<tr") == 1 + len(field_page.summarize_claims(results()))
    drawn = field_page.draw_pictures(results().published)
    assert text.count("<svg") == sum(len(panels) for _, _, panels in drawn)
    assert text.index("<svg") < text.index("<details")
    identifiers = re.findall(r'id="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers))
    points = sum(len(panel.inside) for _, _, panels in drawn for panel in panels)
    assert len(re.findall(r'class="mark"><title>', text)) == points
    assert "<text" in text
    assert results().headline in text


def test_files_and_picture(written):
    """The command writes everything without runs; the picture by itself is a picture."""
    assert {p.name for p in (written / "out").iterdir()} == {
        "index.html", "numbers.csv", "models.csv", "conflicts.csv", "claims.csv",
    }  # fmt: skip
    assert (written / "a.png").read_bytes().startswith(b"\x89PNG")
    with Image.open(written / "a.png") as picture:  # opaque, so that dark text is read on a dark page
        assert picture.convert("RGBA").getextrema()[3] == (255, 255)


def test_names_of_the_picture_overlap_nothing():
    """Measured as drawn: about a dozen names inside the figure, over no other name and no mark; one white background."""
    plot = field_page.draw_first_panel(results().published)
    plot.to_svg()
    names = [text for text in plot.axes.texts if text.get_gid() == "name"]
    assert 10 <= len(names) <= 14
    boxes = [Text.get_window_extent(name) for name in names]  # without the lines that lead to marks
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(plot.figure.bbox.x0 <= box.x0 and box.x1 <= plot.figure.bbox.x1 for box in boxes)
    marks = [line for line in plot.axes.lines if (line.get_gid() or "").startswith("mark")]
    places = [plot.axes.transData.transform(line.get_xydata()[0]) for line in marks]
    assert len(places) > 40
    assert not any(box.contains(*place) for box in boxes for place in places)


def test_every_other_mark_of_the_picture_is_grey():
    """Each declared name is drawn once, and a name that fits no model is an error."""
    field = results().published
    names = field.facts.pictures["SugarCrepe"].names
    lines = field_page.draw_first_panel(field).axes.lines
    marks = [line for line in lines if (line.get_gid() or "").startswith("mark")]
    assert sum(line.get_color() != field_page.SOFT for line in marks) == len(names)
    picture = replace(field.facts.pictures["SugarCrepe"], names={"A": "B: c: *"})
    facts = replace(field.facts, pictures={"SugarCrepe": picture})
    with pytest.raises(UserError, match=r"pictures.SugarCrepe.names.A: 'B: c: \*'"):
        field_page.draw_first_panel(replace(field, facts=facts))


def test_wrong_calls_are_one_line(tmp_path, monkeypatch):
    """An ending that is no picture's, and a folder without papers' tables."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"--picture a.gif: must end in .png, .svg, .pdf"):
        main(["field", "--picture", "a.gif"])
    with pytest.raises(UserError, match="experiments/published"):
        main(["field"])


def test_own_rows_are_shown_where_the_files_are_the_official_ones(tmp_path, monkeypatch):
    """Means over seeds in percent; nothing of a benchmark with other files, and no conflict or sign of them is counted."""
    fake_runs.make(tmp_path)
    params = SimpleNamespace(evaluate=SimpleNamespace(benchmarks=dict.fromkeys(fake_runs.BENCHMARKS)))
    monkeypatch.setattr(field_command.read, "load_params", lambda path: params)
    monkeypatch.setattr(field_command.grid, "list_cells", lambda params: fake_runs.cells())
    own_numbers = field_command.read_own_numbers(CLAIMS, tmp_path, tmp_path)
    assert own_numbers == []
    fingerprints = {name: list(prints) for name, prints in fake_runs.OFFICIAL.fingerprints.items()}
    (tmp_path / "benchmarks.yaml").write_text(yaml.safe_dump({"fingerprints": fingerprints, "means": {}}))
    own_numbers = field_command.read_own_numbers(CLAIMS, tmp_path, tmp_path)
    assert ("negclip", "sugarcrepe", "swap_att", "90.00") in {
        (n.method, n.benchmark, n.metric, n.value) for n in own_numbers
    }
    assert field_command.read_own_numbers(tmp_path / "none.yaml", tmp_path, tmp_path) == []
    with_own = field_page.load_field(FOLDER, CLAIMS, own_numbers)
    assert any(m.source == "ours" for m in with_own.published.models)
    assert with_own.comparisons == results().comparisons
    assert with_own.headline == results().headline


def test_an_unknown_axis_is_named(tmp_path):
    """With the axes that there are; a folder without papers' tables says what to give."""
    (tmp_path / "field.yaml").write_text("axes: {a: {column: b/c}}\npictures: {p: {y: a, x: [z]}}\n")
    with pytest.raises(UserError, match="pictures.p: 'z' is no axis; known are a"):
        read_facts(tmp_path / "field.yaml")
    (tmp_path / "field.yaml").write_text("axes: {a: {column: b/c}}\n")
    with pytest.raises(UserError, match="no tables of papers"):
        read_field(tmp_path)
