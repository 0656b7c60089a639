"""Every benchmark enters by one door, which trusts none of its names and texts."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base import plugins
from compclip.base.errors import UserError
from compclip.config.sections import BenchmarkSection as Section
from compclip.evaluate import benchmark_module, result_store
from compclip.evaluate.benchmark import Benchmark, Record, with_box
from compclip.prepare import record_writer
from compclip.runs.item_outcomes import COMPOSITION
from tests.benchmarks.official_files import REGION

OUTSIDE = "../outside/o.png"


def choice(name):
    return {"filename": name, "caption": "good", "negative_caption": "bad"}


def coco(name):
    return {"images": [{"id": 1, "file_name": name}], "annotations": [{"image_id": 1, "caption": "x"}]}


GENOME = REGION | {"bbox_x": 0, "bbox_y": 0, "bbox_w": 4, "bbox_h": 4}
FILES = {  # of modules that name pictures in other ways: file, content with the picture's name, and the split
    "sugarcrepe": lambda name: ("swap_att.json", {"0": choice(name)}, "swap_att"),
    "winoground": lambda name: ("examples.jsonl", {"id": 1, "image_0": "a.png", "image_1": name, "caption_0": "x", "caption_1": "y"}, ""),
    "retrieval": lambda name: ("d.json", coco(name), ""),
    "aro": lambda name: ("visual_genome_relation.json", [{**GENOME, "image_path": name}], "visual_genome_relation"),
    "eqben": lambda name: ("e.json", [{"image0": "eqbenag/a.png", "image1": name, "caption0": "x", "caption1": "y"}], ""),
    "imagecode": lambda name: ("valid_data.json", {name: {"1": "x"}}, ""),
    "bivlc": lambda name: ("test.json", [{"image": "a.png", "negative_image": name, "caption": "x", "negative_caption": "y", "type": "add"}], ""),
}  # fmt: skip


@pytest.fixture
def picture_root(tmp_path, picture):
    """A picture in the section's folder and one beside it."""
    picture("images/a.png")
    picture("outside/o.png")
    (tmp_path / "images" / "link.png").symlink_to("../outside/o.png")
    return tmp_path


def section(picture_root, dump, module, name, **overrides):
    file, content, split = FILES[module](name)
    path = dump(f"b/{file}", content)
    path = path if module in ("retrieval", "eqben") else path.parent
    return Section(module, str(path), str(picture_root / "images"), split, **overrides)


@pytest.mark.parametrize("module", FILES)
@pytest.mark.parametrize("name", [OUTSIDE, "link.png", "{}/outside/o.png"])
def test_a_picture_outside_is_refused(picture_root, dump, module, name):
    """By `..`, through a link, or from the root; unless the section says that it may be there."""
    if module == "imagecode" and name == "link.png":  # names folders, as these do
        (picture_root / "images" / "link.png").unlink()
        (picture_root / "images" / "link.png").symlink_to("../outside")
    refused_section = section(picture_root, dump, module, name.format(picture_root))
    message = r"b.*: record '\S+': picture '.*' lies outside of images=\S+; .*images_outside: true"
    with pytest.raises(UserError, match=message):
        benchmark_module.load_benchmark("x", refused_section)
    assert len(benchmark_module.load_benchmark("x", replace(refused_section, images_outside=True)))


@pytest.mark.parametrize("module", FILES)
def test_a_picture_inside_is_taken(picture_root, dump, module):
    """Also where the user's folder is a link, and through a link that stays inside."""
    (picture_root / "images" / "inside.png").symlink_to("a.png")
    (picture_root / "linked").symlink_to("images")
    inside_section = section(picture_root, dump, module, "inside.png")
    for images in (inside_section.images, str(picture_root / "linked")):
        assert len(benchmark_module.load_benchmark("x", replace(inside_section, images=images)))


def load_records(*records, **overrides):
    """What is made of records, whatever module read them."""
    result = Benchmark(records, (), lambda records, embeddings: {}, kind=COMPOSITION, **overrides)
    module = SimpleNamespace(METRICS=(), HEADLINE=(), load=lambda path, images, split: result)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "load_plugin", lambda *_: module)
        return benchmark_module.load_benchmark("x", Section("x", "b.json", "images"))


def test_halves_of_surrogate_pairs_in_texts_are_repaired_and_counted():
    """No tokenizer takes them."""
    first = Record("s", "0", ("images/a.png",), ("a \ud800 dog", "a cat"))
    result = load_records(first, Record("s", "1", (), ("\udfff",)))
    assert [record.texts for record in result.records] == [("a \ufffd dog", "a cat"), ("\ufffd",)]
    assert result.dropped == {"repaired_texts": 2}
    assert json.dumps(result.texts, ensure_ascii=False).encode()


def test_options_reach_the_module_that_has_them(picture_root, dump):
    """And one that it does not have, or a module without any, is refused in the section's words."""
    dump("b/d.json", [{"image": "a.png", "caption": ["A dog."]}])

    def section_with(module, **options):
        return Section(module, str(picture_root / "b/d.json"), str(picture_root), options=options)

    assert benchmark_module.load_benchmark("x", section_with("retrieval", clean="clic")).texts == ["a dog"]
    with pytest.raises(UserError, match=r"benchmarks.x.options: unknown key 'cleen'; did you mean 'clean'"):
        benchmark_module.load_benchmark("x", section_with("retrieval", cleen="clic"))
    with pytest.raises(UserError, match=r"benchmarks.x.options.clean: unknown cleaning 'clik'"):
        benchmark_module.load_benchmark("x", section_with("retrieval", clean="clik"))
    with pytest.raises(UserError, match=r"benchmarks.x.options: benchmark 'valse' has no options; remove them"):
        benchmark_module.load_benchmark("x", section_with("valse", clean="clic"))


@pytest.mark.parametrize("overrides", [{}, {"groups": {"s": {"\ud800": frozenset()}}}])
def test_a_name_that_no_result_file_takes_is_refused(overrides):
    with pytest.raises(UserError, match=r"^b.json: id '\\ud800': holds half a surrogate pair"):
        load_records(Record("s", "1" if overrides else "\ud800", (), ("x",)), **overrides)


PARTS = st.sampled_from(["..", ".", "a", "/", "\0", "\ud800", "x" * 300, "#box=", "1,2,3,4"])


@given(path_parts=st.lists(PARTS, max_size=6), is_boxed=st.booleans())
def test_any_name_is_taken_or_refused_in_a_line(path_parts, is_boxed):
    """And counted without a traceback."""
    ref = with_box(f"images/{'/'.join(path_parts)}", (1, 2, 3, 4) if is_boxed else None)
    try:
        benchmark = load_records(Record("s", "0", (ref,), ("x",)))
    except UserError as error:
        assert "lies outside of images=images" in str(error)
    else:
        assert benchmark_module.count_benchmark(benchmark)["missing_images"] == 1
        assert len(benchmark.unit_pictures) == 1


def test_a_census_refuses_a_column_that_the_files_do_not_have(tmp_path, picture):
    """A part of a metric, and a subset that the section leaves out, are known when the files are read."""
    picture("a.png")
    (tmp_path / "swap_att.json").write_text(json.dumps({"0": choice("a.png"), "1": choice("gone.png")}))
    (tmp_path / "groups.json").write_text(json.dumps({"swap_att": {"rare": ["1"]}}))
    section = Section("sugarcrepe", str(tmp_path), str(tmp_path), "swap_att")
    have = ["swap_att", "swap_att/rare"]
    assert result_store.write_census("sc", section, tmp_path, have)["records"] == 2
    for column, suggestion in (("swap_att/rar", "sc/swap_att/rare"), ("swap_obj", "sc/swap_att")):
        message = f"not in the files of sc: unknown column 'sc/{column}'; did you mean '{suggestion}"
        with pytest.raises(UserError, match=message):
            result_store.write_census("sc", section, tmp_path, [column])


def test_records_are_written_for_the_report(picture_root, dump):
    """Texts, the picture with its box, and slices of texts and of the picture's size; none of a classification."""
    content = [{**GENOME, "bbox_x": 1, "image_path": "a.png", "false_caption": "yz"[i < 10]} for i in range(11)]
    folder = dump("b/visual_genome_relation.json", content).parent
    split = Section("aro", str(folder), str(picture_root / "images"), "visual_genome_relation")
    counts = result_store.write_census("aro", split, picture_root)
    records = record_writer.read_records(record_writer.records_file(picture_root, "aro"))
    assert records.fingerprints == {counts["fingerprint"]} and records.texts(0) == ("x", "z")
    assert [(p.path, p.box) for p in records.pictures(0)] == [(str(picture_root / "images/a.png"), (1, 0, 4, 4))]
    assert records.slices["edit: x -> z"].tolist() == list(range(10)) and "edit: x -> y" not in records.slices
    assert any(name.startswith("picture: ") for name in records.slices)
