"""The shipped catalogue holds, its layouts are those that the grids name, and a stranger's is checked before its use."""

import re
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.benchmarks import hard_positives, vl_checklist
from compclip.fetch import catalogue
from compclip.fetch.archives import unpack
from tests.shipped_files import list_shipped

SHIPPED = catalogue.load_catalogue()
GRIDS = list_shipped("experiments/grids/*.yaml")
NOT_HERE = (
    "data/raw/zeroshot/",  # made by CLIP_benchmark's builder from many sources
    # what authors give or make by their own programs: experiments/grids/README.md
    *("data/raw/ccneg/", "data/raw/gnm/", "data/raw/tripletdata", "data/raw/laion_coco", "data/raw/datacomp_1b"),
    *("data/raw/finehard/", "data/raw/fineclip/", "data/raw/ultraedit", "data/raw/captions/ultraedit_long.jsonl"),
    *("data/raw/captions/degla.jsonl", "data/raw/captions/quality_captions", "data/raw/captions/cc3m_positives"),
    *("data/raw/captions/LLM_dense", "data/raw/captions/SAM_dense"),
)


def test_what_the_grids_name_is_brought_there():
    """Every path of every grid is in an entry's folder, and every JSON file is one that an entry brings."""
    grid_paths = {path for grid in GRIDS for path in re.findall(r"data/raw/[\w./-]+", grid.read_text(encoding="utf-8"))}
    expected_paths = {path for path in grid_paths if not path.startswith(NOT_HERE)}
    folders = [entry.section.folder for entry in SHIPPED.values()]
    folders += [entry.pictures.into for entry in SHIPPED.values() if entry.pictures]
    assert {p for p in expected_paths if not any(p == f or p.startswith(f"{f}/") for f in folders if f)} == set()
    brought = {Path(entry.section.folder) / name for entry in SHIPPED.values() for name in _files(entry)}
    assert {path for path in expected_paths if path.endswith(".json") and Path(path) not in brought} == set()
    assert len(expected_paths) > 30


def _files(entry):
    for name, file in entry.files.items():
        yield from file.members or [name]


def test_weights_of_a_tag_come_from_where_open_clip_looks():
    """Each grid's tag has an entry whose repository is one that open_clip names; no other repository is cached."""
    import open_clip

    hubs = {entry.section.hub for entry in SHIPPED.values() if entry.section.cache}
    tags = {tag for grid in GRIDS for tag in re.findall(r"model: ([\w-]+), weights: (\w+)", grid.read_text("utf-8"))}
    for entry in SHIPPED.values():
        for name in entry.section.tags:
            assert open_clip.get_pretrained_cfg(*name.split("::"))["hf_hub"].rstrip("/") == entry.section.hub, name
    known_tags = map(open_clip.get_pretrained_cfg, *zip(*open_clip.list_pretrained(), strict=True))
    known_hubs = {cfg.get("hf_hub", "").rstrip("/") for cfg in known_tags}
    assert {open_clip.get_pretrained_cfg(*tag)["hf_hub"].rstrip("/") for tag in tags} <= hubs
    assert hubs - known_hubs == {"UCSC-VLAA/ViT-L-14-CLIPS-224-Recap-DataComp-1B"}  # which hf-hub: names


# Of archives as they are published: entry, file, members, and where those of them belong that are not left out.
LAYOUTS = [
    ("coco_val2017", "val2017.zip", ["val2017/000000000139.jpg"], ["val2017/000000000139.jpg"]),
    (
        "coco_captions2017", "annotations_trainval2017.zip",
        ["annotations/captions_val2017.json", "annotations/captions_train2017.json", "annotations/instances_val2017.json"],
        ["annotations/captions_train2017.json", "annotations/captions_val2017.json"],
    ),
    (
        "karpathy_flickr30k", "caption_datasets.zip",
        ["dataset_coco.json", "dataset_flickr30k.json", "dataset_flickr8k.json"], ["dataset_flickr30k.json"],
    ),
    (
        "flickr30k_pictures", "flickr30k-images.zip",
        ["flickr30k-images/1000092795.jpg", "__MACOSX/flickr30k-images/._1000092795.jpg"], ["images/1000092795.jpg"],
    ),
    ("flickr8k_pictures", "Flickr8k_Dataset.zip", ["Flicker8k_Dataset/1_a.jpg"], ["Images/1_a.jpg"]),
    ("visual_genome", "images2.zip", ["VG_100K_2/1.jpg"], ["VG_100K_2/1.jpg"]),
    ("winoground", "images.zip", ["images/ex_0_img_0.png"], ["images/ex_0_img_0.png"]),
    ("aro", "vgr_vga_images.zip", ["images/1.jpg"], ["images/1.jpg"]),
    ("imagecode", "image-sets.zip", ["image-sets/MSR/img0.jpg"], ["image-sets/MSR/img0.jpg"]),
    ("vl_checklist", "images_512.zip", ["images_512/a.jpg"], ["images/swig/a.jpg"]),
    ("vl_checklist", "images.zip", ["VG_100K/1.jpg"], ["images/vg/VG_100K/1.jpg"]),
    ("cc3m_100k", "coca_captions.tar.gz", ["coca_captions/000000001.txt"], ["coca_captions/000000001.txt"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "archive", "members", "places"), LAYOUTS, ids=lambda value: str(value)[:20])
def test_archives_are_unpacked_to_the_layout(tmp_path, zipped, tarred, name, archive, members, places):
    file = SHIPPED[name].files[archive]
    make = zipped if archive.endswith(".zip") else tarred
    (tmp_path / archive).write_bytes(make(dict.fromkeys(members, "x")))
    unpack(tmp_path / archive, tmp_path / "out", file, tmp_path / ".new")
    unpacked = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert file.unpack and sorted(path.relative_to(tmp_path / "out").as_posix() for path in unpacked) == places


def test_the_files_that_two_benchmarks_read_are_all_named():
    """Each by its own path in the authors' repository, and nothing else of that."""
    read_files = {file for task in vl_checklist.TASKS.values() for source in task.values() for file in source.values()}
    assert read_files == {name for name in SHIPPED["vl_checklist"].files if name.endswith(".json")}
    read_files = {f"{folder}/{name}" for folder in ("data", "swapped_data") for name in hard_positives.KINDS.values()}
    assert read_files == SHIPPED["hard_positives"].files.keys()
    name = "data/visual_genome_attribution.json"
    assert SHIPPED["hard_positives"].address(name).endswith(f"/{name}")
    assert {"sugarcrepe", "winoground", "coco_val2017", "clic", "vit_b_32_openai"} <= SHIPPED.keys()
    assert {entry.section.kind for entry in SHIPPED.values()} == {"benchmark", "pictures", "captions", "weights"}


GOOD = {"what": "x", "kind": "benchmark", "folder": "data/raw/x", "http": "http://host/a", "files": {"b.json": {}}}


def load_entry(tmp_path, **change):
    from omegaconf import OmegaConf

    path = tmp_path / "c.yaml"
    path.write_text(OmegaConf.to_yaml({"x": {k: v for k, v in (GOOD | change).items() if v is not None}}))
    return catalogue.load_catalogue(path)["x"]


def test_an_address_is_below_http_unless_it_is_whole(tmp_path):
    files = {"b.json": {}, "c.json": {"source": "d/e.json?x=1"}, "f.json": {"source": "https://other/f"}}
    entry = load_entry(tmp_path, files=files)
    addresses = ["http://host/a/b.json", "http://host/a/d/e.json?x=1", "https://other/f"]
    assert [entry.address(name) for name in files] == addresses


@pytest.mark.parametrize(("change", "message"), [
    ({"folder": "../elsewhere"}, "folder='../elsewhere': must be a path below its folder"),
    ({"folder": "/tmp/x"}, "must be a path below its folder"),
    ({"folder": "compclip/methods"}, "must be a folder below data/ or models/"),
    ({"folder": "data/.git"}, "must be a path below its folder"),
    ({"folder": None}, "folder: must be given, or cache: true instead"),
    ({"files": {"../b.json": {}}}, "must be a path below its folder"),
    ({"files": {"b.json": {"into": "../x", "unpack": True}}}, "into='../x': must be a path below"),
    ({"files": {"b.json": {"into": "x"}}}, "belong to an archive; add unpack: true"),
    ({"files": {"b.json": {"size": -1}}}, "size=-1: must be >= 0"),
    ({"files": {"b.json": {"sha256": "abc"}}}, "sha256='abc': must be 64 digits"),
    ({"files": {}}, "has no files"),
    ({"files": {"b": {"source": "file:///etc/passwd"}}}, "must be an http or https address"),
    ({"http": "http://user:secret@host"}, "must be without user and password"),
    ({"hub": "a/b"}, "http and hub: an entry has one source"),
    ({"hub": "../b", "http": None}, "must be OWNER/NAME"),
    ({"hub": "a/b", "http": None, "revision": "../main"}, "revision='../main': must be a commit"),
    ({"hub": "a/b", "http": None, "files": {"b": {"source": "../../b"}}}, "must be a path below its folder"),
    ({"patterns": ["*"]}, "patterns and cache belong to a repository"),
    ({"hub": "a/b", "http": None, "folder": None, "cache": True, "files": {"b": {"unpack": True}}}, "nothing is unpacked"),
    ({"needs": ["y"]}, "x.needs: unknown entry 'y'"),
    ({"tags": ["ViT-B-32::openai"]}, "must be NAME::TAG each, of weights in the hub's cache"),
    ({"pictures": {"list": "b.json", "format": "xls", "into": "data/raw/y"}}, "unknown format 'xls'"),
    ({"pictures": {"list": "../b.json", "into": "data/raw/y"}}, "list='../b.json': must be a path below"),
    ({"pictures": {"list": "b.json", "into": "elsewhere"}}, "must be a folder below data/ or models/"),
])  # fmt: skip
def test_a_strangers_catalogue(tmp_path, change, message):
    """One line that names the entry, the key and the value; nothing was asked for yet."""
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        load_entry(tmp_path, **change)
    assert str(raised.value).startswith(f"{tmp_path}/c.yaml: x") and "secret" not in str(raised.value)
