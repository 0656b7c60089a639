"""Files of benchmarks and of captions, and the pictures that they name."""

import functools
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from compclip.base import plugins
from compclip.base.safe_names import SafeName
from compclip.config.sections import BenchmarkSection, Data, Scoring
from compclip.data import images
from compclip.evaluate import benchmark_module, result_store, score
from compclip.evaluate.benchmark import parse_reference
from compclip.prepare import shard_stages, shard_writer
from perf.faults.fuzz import formats
from perf.faults.fuzz.reader import Make, Reader
from perf.faults.fuzz.tiny import tiny
from tests.benchmarks.official_files import OFFICIAL
from tests.data import tar_files


def readers() -> Iterator[Reader]:
    """Benchmarks, sources, formats of pictures."""
    yield from (*_benchmarks(), *_sources(), *_pictures())


def _benchmarks() -> Iterator[Reader]:
    for name, (files, split) in OFFICIAL.items():
        yield Reader(f"benchmark:{name}", _with_own_pictures(name, files, split), _scorer(name, split), ("files/**/*",))
    for name, contents in formats.BENCHMARKS.items():
        yield Reader(f"benchmark:{name}", _with_own_pictures(name, contents, ""), _scorer(name), ("files/**/*",))
    for name, (module, contents, split) in formats.LAYOUTS.items():
        yield Reader(f"benchmark:{name}", write_with_pictures(contents), _scorer(module, split), ("files/**/*",))
    captions = "\n".join(formats.TWO)
    for name, make in (("zeroshot", _tars("cls", "0", "1")), ("retrieval", _tars("txt", captions, captions))):
        yield Reader(f"benchmark:{name}_tars", make, _scorer(name, images="files"), ("files/*.tar",))
    yield Reader("benchmark:zeroshot_parquet", _tables, _scorer("zeroshot"), ("files/*.parquet",))
    yield Reader("benchmark:winoground_parquet", _pairs, _scorer("winoground"), ("files/*.parquet",))
    yield Reader("benchmark:winoground_arrow", _stream, _scorer("winoground"), ("files/*.arrow",))


def _tars(ending: str, *contents: str) -> Make:
    """Two pictures, each with a file beside it."""

    def make(folder: Path) -> None:
        formats.write(folder / "files", formats.ZEROSHOT if ending == "cls" else {})
        members = []
        for n, content in enumerate(contents):
            members += [(f"s{n}.jpg", tar_files.picture(8, 6)), (f"s{n}.{ending}", content.encode())]
        tar_files.write(folder / "files/0.tar", members)

    return make


def _tables(folder: Path) -> None:
    formats.write(folder / "files", formats.ZEROSHOT)
    _table(folder / "files/test.parquet", [{"image": _inside(), "label": n} for n in range(2)])


def _pairs(folder: Path) -> None:
    rows = [{**row, "image_0": _inside(), "image_1": _inside()} for row in formats.WINOGROUND]
    _table(folder / "files/test.parquet", rows)


def _stream(folder: Path) -> None:
    _pairs(folder)
    contents = parquet.read_table(folder / "files/test.parquet")
    (folder / "files/test.parquet").unlink()
    with pa.ipc.new_stream(folder / "files/test.arrow", contents.schema) as stream:
        stream.write_table(contents)


def _table(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)


def _inside() -> dict[str, object]:
    return {"bytes": tar_files.picture(8, 6), "path": "a.jpg"}


def write_with_pictures(files: formats.Files) -> Make:
    def make(folder: Path) -> None:
        formats.write(folder / "files", files)
        formats.pictures(folder / "pictures")

    return make


def _with_own_pictures(name: str, files: formats.Files, split: str) -> Make:
    """A benchmark's files, and a picture wherever it names one."""

    def make(folder: Path) -> None:
        formats.write(folder / "files", files)
        formats.pictures(folder / "pictures", (*formats.PICTURES, "red_cup/a.png", "table/b.jpg"))
        benchmark = plugins.load_plugin(plugins.BENCHMARKS, name).load(folder / "files", folder / "pictures", split)
        picture_paths = {Path(str(parse_reference(ref)[0])) for ref in benchmark.images}
        formats.pictures(folder, tuple(sorted(str(path.relative_to(folder)) for path in picture_paths)))

    return make


def _scorer(name: str, split: str = "", images: str = "pictures") -> Callable[[random.Random], object]:
    def score_benchmark(_: random.Random) -> object:
        section = BenchmarkSection(benchmark=name, path="files", images=images, split=split)
        result_store.write_census(SafeName(name, "benchmark"), section)
        return score.score_model(tiny(), {name: benchmark_module.load_benchmark(name, section)}, Scoring(8, 1))

    return score_benchmark


def _sources() -> Iterator[Reader]:
    for name, (path, files) in formats.SOURCES.items():
        yield Reader(f"source:{name}", write_with_pictures(files), _recaptioned(name, path), ("files/**/*",))


def _recaptioned(name: str, path: str) -> Callable[[random.Random], object]:
    def recaption_source(_: random.Random) -> object:
        source = name.partition(":")[0]
        outside = source != name  # pictures are in the files
        source_path = f"files/{path}".rstrip("/")
        data = Data(source=source, path=source_path, images="pictures", images_outside=outside, captioner="none")
        shard_stages.run_stage("recaption", SafeName("x", "data"), data)
        shard_stages.run_stage("rewrite", SafeName("x", "data"), data)
        return [shard_writer.load_samples(path) for path in sorted(Path("data/x/samples").glob("*.arrow"))]

    return recaption_source


def _pictures() -> Iterator[Reader]:
    for suffix in ("png", "jpg", "webp", "gif", "tif", "bmp", "ppm"):
        name = f"a.{suffix}"
        make = functools.partial(formats.pictures, names=(name,))
        yield Reader(f"picture:{suffix}", make, functools.partial(_decoded, name))
    yield Reader("picture:dds", _dds, lambda _: _no_format("a.dds"))


def _dds(folder: Path) -> None:
    numbers = (124, 0x1007, 8, 8, 32, 0, 0, 32, 0x41, 0, 32, 0xFF, 0xFF00, 0xFF0000, 0)
    header = struct.pack("<4s7I44x8I20x", b"DDS ", *numbers)
    (folder / "a.dds").write_bytes(header + bytes(256))


def _decoded(name: str, _: random.Random) -> None:
    images.read_size(name)
    assert images.load_image(name).mode == "RGB"


def _no_format(name: str) -> None:
    """A format that is none of ours, whatever it holds."""
    try:
        images.load_image(name)
    except images.ImageError:
        return
    raise AssertionError(f"{name}: was read")
