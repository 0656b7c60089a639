"""One run key for the same pictures and captions, whichever way they came, and another one where a picture changes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from compclip.base.files import write_atomic
from compclip.base.safe_names import SafeName
from compclip.config import read
from compclip.data import column_hashes
from compclip.prepare import shard_stages
from compclip.runs.shard_tasks import ANNOTATE, RECAPTION
from tests import fake_store
from tests.data import tar_files

NAMES = [f"0/{number:03d}" for number in range(8)]
CELLS = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def caption(name: str) -> str:
    return f"A dog looks at {name[-1]} cats."


def write_table(folder: Path) -> None:
    lines = [json.dumps({"image": f"{name}.png", "caption": caption(name)}) for name in NAMES]
    (folder / "t.jsonl").write_text("\n".join(lines))


def write_texts(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.txt").write_text(caption(name))


def write_tar(folder: Path) -> None:
    members = [(name, (folder / f"{name}.png").read_bytes()) for name in NAMES]
    pairs = [[(f"{name[2:]}.png", raw), (f"{name[2:]}.txt", caption(name).encode())] for name, raw in members]
    tar_files.write(folder / "0.tar", [member for pair in pairs for member in pair])


def make_inside(folder: Path) -> pa.Table:
    cells = [{"bytes": (folder / f"{name}.png").read_bytes(), "path": f"{name}.png"} for name in NAMES]
    return pa.table({"image": pa.array(cells, CELLS), "caption": list(map(caption, NAMES))})


def write_parquet(folder: Path) -> None:
    pq.write_table(make_inside(folder), folder / "t.parquet", row_group_size=3)


def write_arrow(folder: Path) -> None:
    content = make_inside(folder)
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_stream(file, content.schema) as writer:
        writer.write_table(content, max_chunksize=3)


def write_saved(folder: Path) -> None:
    write_arrow(folder)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "t.arrow"}]}))


FORMS = {  # by name: how it is written, its source, and its path
    "paths": (write_table, "table", "/t.jsonl"),
    "texts": (write_texts, "folder", ""),
    "tar": (write_tar, "webdataset", "/0.tar"),
    "parquet": (write_parquet, "table", "/t.parquet"),
    "arrow": (write_arrow, "table", "/t.arrow"),
    "saved": (write_saved, "huggingface", ""),
}


@pytest.fixture
def pictures(tmp_path) -> Path:
    for name in NAMES:
        path = tmp_path / "pictures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(int(name[2:])).integers(0, 255, (20, 24, 3), np.uint8)
        Image.fromarray(noise).save(path)
    return tmp_path / "pictures"


def prepare(root: Path, pictures: Path, **options) -> dict[str, tuple[str, dict]]:
    """Prepare each form of the pictures below `root`; gives its run key, and the hashes of its columns."""
    sections = {}
    for form, (write, source, path) in FORMS.items():
        folder = root / "raw" / form
        shutil.copytree(pictures, folder)
        write(folder)
        sections[form] = {"source": source, "path": f"{folder}{path}", "images": str(folder), "captioner": "none"}
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
    path = pictures / f"{NAMES[5]}.png"
    raw = path.read_bytes()
    middle = len(raw) // 2
    path.write_bytes(raw[:middle] + bytes([raw[middle] ^ 1]) + raw[middle + 1 :])


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
    for side in (0, 16, 12):
        prepared = prepare(tmp_path / str(side), pictures, short_side=side)
        keys.append({key for key, _ in prepared.values()})
    assert [len(forms) for forms in keys] == [1, 1, 1]
    assert len(set.union(*keys)) == 3
