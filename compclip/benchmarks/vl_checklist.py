"""VL-CheckList (Zhao et al., EMNLP 2022 demo, arXiv:2207.00221): a text against the same with one part changed.

Right where the image is nearer to the text than to its negative (the authors' task `itc`); a tie is wrong, as in their
code. Like them we take the first text of each list, and of each file the first 1,000 records (`MAX_NUM: 2000` in their
configurations counts both texts); the others are counted as `beyond_limit`. Departure: a picture that is missing is
counted, where they go on to the next record.

Aggregation as in their chart: files to a source (vg, swig, hake, vaw), sources to a task, tasks to `average`, each of
them a plain mean. So `Object_Size_small` weighs the one file of hake as much as the four of swig. `average_kinds` is
FSC-CLIP's number: the mean of `Object` (six tasks), `Attribute` (five) and `Relation` (two).

Source: github.com/om-ai-lab/VL-CheckList, licence unspecified. Compared: each of the 56 files with the authors' scoring
code, equal where no scores tie; `average_kinds` with 202 published models. Not compared: numbers on the real pictures.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.benchmarks import _choice
from compclip.benchmarks._files import existing_file, images_folder, read_field, read_items, selected_names
from compclip.evaluate.benchmark import Benchmark, Record
from compclip.runs.item_outcomes import COMPOSITION

Sources = dict[str, dict[str, str]]  # source -> corpus -> file
LIMIT = 1000
FOLDERS = {"vg": "vg", "vaw": "vg", "swig": "swig", "hake": "hake"}  # VAW describes pictures of Visual Genome
TEXTS = ("POS", "NEG")


def _object(kind: str, name: str) -> Sources:
    at = f"Object/{kind}"
    roles = ("agent", "destination", "item", "tool")
    low = kind.lower()
    return {
        "vg": {f"vg_{role}": f"{at}/vg_{low}/vg_{role}_{name}.json" for role in ("obj", "subj")},
        "swig": {f"swig_{role}": f"{at}/swig_{low}/swig_{role}/swig_{role}_{name}.json" for role in roles},
        "hake": {"hake": f"{at}/hake_{low}/hake_obj_{name}.json"},
    }


TASKS: dict[str, Sources] = {
    **{f"Object_Location_{name}": _object("Location", name) for name in ("center", "margin", "mid")},
    **{f"Object_Size_{name}": _object("Size", name) for name in ("large", "medium", "small")},
    **{
        f"Attribute_{name}": {source: {source: f"Attribute/{source}/{name}.json"} for source in ("vg", "vaw")}
        for name in ("action", "color", "material", "size", "state")
    },
    "Relation_action": {
        "vg": {"vg": "Relation/vg/action.json"},
        "swig": {"swig": "Relation/swig_action.json"},
        "hake": {"hake": "Relation/hake_action.json"},
    },
    "Relation_spatial": {"vg": {"vg": "Relation/vg/spatial.json"}},
}


KINDS = {kind: tuple(task for task in TASKS if task.startswith(kind)) for kind in ("Object", "Attribute", "Relation")}
RECOGNISES = {task: next(iter(next(iter(sources.values())).values())) for task, sources in TASKS.items()}
FILE_HEAD = r"\A\s*\["  # FG-OVD has objects of the same names


def load(path: str | Path, images: str | Path | None = None, split: str = "") -> Benchmark:
    """Read the authors' `data` folder; `split` names tasks (`Attribute_size,Relation_spatial`), by default all.

    Pictures lie in `vg`, `swig` and `hake` below `images`, as the authors' DATASETS.md lays them out. Metrics:
    `<task>_<corpus>` a file, `<task>`, `average`, `Object`, `Attribute`, `Relation`, `average_kinds`. Raises UserError
    for a missing file, an unknown task, or a record of another form.
    """
    folder = Path(path)
    pictures = images_folder(Path(path), images)
    files = []
    records: list[Record] = []
    dropped = {"beyond_limit": 0}
    for task in selected_names(folder, TASKS, split):
        for source, corpora in TASKS[task].items():
            for corpus, name in corpora.items():
                file = existing_file(folder / name)
                rows = read_items(file)
                files.append(file)
                dropped["beyond_limit"] += max(0, len(rows) - LIMIT)
                for key, row in rows[:LIMIT]:
                    records.append(_record(f"{task}_{corpus}", file, key, row, pictures / FOLDERS[source]))
    evaluate = partial(_choice.choose, strict=True)
    return Benchmark(tuple(records), tuple(files), evaluate, MEANS, dropped=dropped, kind=COMPOSITION)


def reads(path: str | Path, split: str = "") -> list[Path]:
    """List the files beside pictures that `load` reads."""
    files = []
    for task in selected_names(Path(path), TASKS, split):
        for corpora in TASKS[task].values():
            files += [Path(path) / name for name in corpora.values()]
    return files


def _means() -> dict[str, tuple[str, ...]]:
    """List the means: sources of several files, then tasks, then all, then kinds."""
    means = {}
    for task, sources in TASKS.items():
        for source, corpora in sources.items():
            if len(corpora) > 1:
                means[f"{task}_{source}"] = tuple(f"{task}_{corpus}" for corpus in corpora)
        means[task] = tuple(f"{task}_{source}" for source in sources)
    return {**means, "average": tuple(TASKS), **KINDS, "average_kinds": tuple(KINDS)}


MEANS = _means()
METRICS = (
    *(f"{task}_{corpus}" for task, sources in TASKS.items() for corpora in sources.values() for corpus in corpora),
    *MEANS,
)
HEADLINE = ("average_kinds",)


def _record(subset: str, file: Path, key: str, row: Any, pictures: Path) -> Record:
    """Read a record. Its id is its position, since the files repeat records."""
    if not isinstance(row, list) or len(row) != 2 or not isinstance(row[0], str):
        raise UserError(f"{file}: record {key}: expected [picture, texts], not {row}; fetch the official file")
    texts = []
    for name in TEXTS:
        values = read_field(file, key, row[1], name, list)
        if not values or not isinstance(values[0], str):
            raise UserError(f"{file}: record {key}: {name!r} holds no text: {values}; fetch the official file")
        texts.append(values[0])
    return Record(subset, key, (str(pictures / row[0]),), tuple(texts))
