"""One run key for the same pictures and captions, whichever way they came, and another one where a picture changes."""

import json
from pathlib import Path

import pytest

from compclip.base.files import write_atomic
from compclip.base.safe_names import SafeName
from compclip.config import read
from compclip.data import column_hashes
from compclip.prepare import shard_stages
from compclip.runs.shard_tasks import ANNOTATE, RECAPTION
from tests import fake_store
from tests.data import picture_sets, tar_files

TEXTS = {f"0/{number:03d}": [f"A dog looks at {number} cats."] for number in range(8)}


def write_tar(folder: Path, pictures: Path, texts: picture_sets.Texts) -> None:
    members = []
    for name, (caption,) in texts.items():
        raw = (pictures / f"{name}.png").read_bytes()
        members += [(f"{name[2:]}.png", raw), (f"{name[2:]}.txt", caption.encode())]
    tar_files.write(folder / "0.tar", members)


FORMS = {  # by name: how it is written, its source, and its path
    "paths": (picture_sets.absolute_jsonl, "table", "/t.jsonl"),
    "texts": (picture_sets.texts_beside, "folder", ""),
    "tar": (write_tar, "webdataset", "/0.tar"),
    "parquet": (picture_sets.inside_parquet, "table", "/t.parquet"),
    "arrow": (picture_sets.inside_arrow, "table", "/t.arrow"),
    "saved": (picture_sets.saved, "huggingface", ""),
}


@pytest.fixture
def pictures(tmp_path) -> Path:
    return picture_sets.write_pictures(tmp_path / "pictures", TEXTS)


def prepare(root: Path, pictures: Path, **options) -> dict[str, tuple[str, dict]]:
    """Prepare each form of the pictures below `root`; gives its run key, and the hashes of its columns."""
    sections = {}
    for form, (write, source, path) in FORMS.items():
        folder = root / "raw" / form
        folder.mkdir(parents=True)
        write(folder, pictures, TEXTS)
        images = str(pictures if form == "paths" else folder)
        sections[form] = {"source": source, "path": f"{folder}{path}", "images": images, "captioner": "none"}
        sections[form] |= options
    text = fake_store.params(["finetune"], 1).replace("data: [scenes]", f"data: {json.dumps(list(FORMS))}")
    lines = [f"data: {json.dumps(sections)}" if line.startswith("data:") else line for line in text.splitlines()]
    write_atomic(root / "params.yaml", "\n".join(lines))
    write_atomic(root / "models/tiny/config.json", "config")
    loaded = read.load_params(root / "params.yaml")
    for form in FORMS:
        for stage in (RECAPTION, ANNOTATE):
            shard_stages.run_stage(stage, SafeName(form, "data"), loaded.data[form], root)
    keys = {run.cell.data: run.key for run in fake_store.runs(root)}
    return {form: (keys[form], dict(column_hashes.read_columns(root / "data" / form))) for form in FORMS}


def change(pictures: Path) -> None:
    """Exchange a pixel of one picture, which keeps its size in bytes."""
    path = pictures / f"{list(TEXTS)[5]}.png"
    raw = bytearray(path.read_bytes())
    raw[-17] ^= 1  # before a checksum and the last chunk
    path.write_bytes(raw)


def test_one_key_whichever_way_and_another_for_a_changed_byte(tmp_path, pictures):
    """All columns but those of places are equal too."""
    before = prepare(tmp_path / "a", pictures)
    assert len({key for key, _ in before.values()}) == 1
    places = {name for names in column_hashes.FORMER_COLUMNS.values() for name in names}
    columns = [{name: value for name, value in hashes.items() if name not in places} for _, hashes in before.values()]
    assert all(hashes == columns[0] for hashes in columns) and "pictures" in columns[0]
    change(pictures)
    after = prepare(tmp_path / "b", pictures)
    assert len({key for key, _ in after.values()}) == 1
    assert before["tar"][0] != after["tar"][0]


def test_smaller_copies_count_and_their_places_do_not(tmp_path, pictures):
    """By what was written."""
    keys = []
    for side in (0, 8, 6):
        prepared = prepare(tmp_path / str(side), pictures, short_side=side)
        keys.append({key for key, _ in prepared.values()})
    assert [len(forms) for forms in keys] == [1, 1, 1]
    assert len(set.union(*keys)) == 3
