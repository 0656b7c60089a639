"""Every reader of what comes from outside: the files that it takes, and what is done with them."""

from __future__ import annotations

import functools
import json
import random
import shutil
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.fuzz import formats, mutate

Make = Callable[[Path], None]
HERE = Path()


@dataclass(frozen=True)
class Reader:
    """`make` writes valid files into a folder; `read` reads those of the current folder, some of them changed."""

    name: str
    make: Make
    read: Callable[[random.Random], object]
    changed: tuple[str, ...] = ("**/*",)


def every() -> list[Reader]:
    """All readers, by name."""
    found = [*_parameters(), *_benchmarks(), *_sources(), *_pictures(), *_models(), *_endpoint(), *_runs(), *_tables()]
    return sorted([*found, *_arguments()], key=lambda reader: reader.name)


def _copied(*names: str) -> Make:
    def make(folder: Path) -> None:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)

    return make


def _parameters() -> Iterator[Reader]:
    yield Reader("params", _copied("params.yaml"), lambda _: _planned("params.yaml"))
    for path in sorted((ROOT / "experiments" / "grids").glob("*.yaml"))[::7]:
        grid = str(path.relative_to(ROOT))
        yield Reader(f"grid:{path.stem}", _copied(grid), lambda _, grid=grid: _planned(grid))
    yield Reader("overrides", _copied("params.yaml"), _overridden, ())
    yield Reader("studies", _copied("params.yaml", "experiments/studies"), _studied, ("experiments/studies/*",))
    yield Reader("profiles", _copied("slurm"), _profiled, ("slurm/*.yaml",))


def _planned(path: str, *overrides: str) -> None:
    from compclip.config import plan, read

    params = read.load(path, overrides, together=True)
    for _ in plan.documents(params):
        pass


def _overridden(rng: random.Random) -> None:
    keys = (
        "train.lr",
        "grid.seeds",
        "grid.methods",
        "methods.clic",
        "data.scenes",
        "evaluate",
        "benchmarks",
        "",
        "a.b",
        "x",
    )
    _planned("params.yaml", *(f"{rng.choice(keys)}{rng.choice(('=', '==', '.'))}{mutate.text(rng)}" for _ in range(2)))


def _studied(rng: random.Random) -> None:
    from compclip.config import read
    from compclip.sweep import declared

    params = read.load("params.yaml")
    for path in sorted(Path("experiments/studies").iterdir()):
        study = declared.load(path.stem)
        declared.overrides(study, declared.corner(study), params.methods)


def _profiled(rng: random.Random) -> None:
    from compclip.launch import profiles

    for path in sorted(Path("slurm").glob("*.yaml")):
        profiles.load(path)


def _benchmarks() -> Iterator[Reader]:
    for name, files in formats.BENCHMARKS.items():
        yield Reader(
            f"benchmark:{name}", _with_pictures(files, formats.PLACES.get(name, ())), _scorer(name), ("files/**/*",)
        )
    for name, files in (("coco", formats._coco), ("flickr", formats._flickr)):
        yield Reader(f"benchmark:retrieval_{name}", _with_pictures(files), _scorer("retrieval"), ("files/**/*",))


def _with_pictures(files: Callable[[], formats.Files], more: tuple[str, ...] = ()) -> Make:
    def make(folder: Path) -> None:
        formats.write(folder / "files", files())
        formats.pictures(folder / "pictures", (*formats.PICTURES, *more))

    return make


def _scorer(name: str) -> Callable[[random.Random], object]:
    def read(_: random.Random) -> object:
        from compclip.config.sections import Benchmark
        from compclip.evaluate import census, score

        section = Benchmark(benchmark=name, path="files", images="pictures")
        census.take(name, section)
        return score.outcomes(_tiny(), {name: census.load(name, section)}, 8, 1)

    return read


@functools.cache
def _tiny() -> Any:
    from compclip.model import backbone

    return backbone.load(_tiny_folder())


@functools.cache
def _tiny_folder() -> Path:
    """A checkpoint of a tiny model with random weights, made once."""
    import tempfile

    from compclip.model import backbone
    from tests.tiny_project import TINY

    folder = Path(tempfile.mkdtemp(prefix="fuzz-model-"))
    (folder / "tiny.json").write_text(json.dumps(TINY | {"text_cfg": TINY["text_cfg"] | {"context_length": 16}}))
    backbone.create(str(folder / "tiny.json")).save(folder / "model")
    return folder / "model"


def _sources() -> Iterator[Reader]:
    for name, (path, files) in formats.SOURCES.items():
        yield Reader(f"source:{name}", _with_pictures(files), _recaptioned(name, path), ("files/**/*",))


def _recaptioned(name: str, path: str) -> Callable[[random.Random], object]:
    def read(_: random.Random) -> object:
        from compclip.config.sections import Data
        from compclip.data import recaption, rewrite, store

        data = Data(source=name, path=f"files/{path}".rstrip("/"), images="pictures", captioner="none")
        recaption.recaption(data, None, Path("data/x"))
        rewrite.rewrite(None, Path("data/x"))
        return store.load("data/x/samples.parquet")

    return read


def _pictures() -> Iterator[Reader]:
    for suffix in ("png", "jpg", "webp", "gif", "tif", "bmp", "ppm"):
        yield Reader(f"picture:{suffix}", _one_picture(f"a.{suffix}"), lambda _, s=suffix: _decoded(f"a.{s}"))
    yield Reader("picture:dds", _dds, lambda _: _no_format("a.dds"))


def _one_picture(name: str) -> Make:
    return lambda folder: formats.pictures(folder, (name,))


def _dds(folder: Path) -> None:
    header = struct.pack(
        "<4s7I44x8I20x", b"DDS ", 124, 0x1007, 8, 8, 32, 0, 0, 32, 0x41, 0, 32, 0xFF, 0xFF00, 0xFF0000, 0
    )
    (folder / "a.dds").write_bytes(header + bytes(256))


def _decoded(name: str) -> None:
    from compclip.data import images

    images.size(name)
    assert images.load(name).mode == "RGB"


def _no_format(name: str) -> None:
    """A format that is none of ours, whatever it holds."""
    from compclip.data import images

    try:
        images.load(name)
    except images.ImageError:
        return
    raise AssertionError(f"{name}: was read")


def _models() -> Iterator[Reader]:
    yield Reader("checkpoint", _checkpoint, lambda _: _opened("model"), ("model/*.json", "model/*.json", "model/*"))
    yield Reader("weights:safetensors", _checkpoint, lambda _: _opened("model"), ("model/*.safetensors",))
    yield Reader("weights:pt", _pickled, lambda _: _opened("weights.pt", "tiny.json", "gelu"), ("weights.pt",))
    yield Reader("weights:archive", _archive, lambda _: _opened("weights.pt", "tiny.json"), ("weights.pt",))
    yield Reader("model", _checkpoint, lambda _: _created("tiny.json"), ("tiny.json",))
    yield Reader("adapter", _adapter, _adapted, ("adapter/*",))
    yield Reader("training", _training, _resumed, ("run/*",))
    yield Reader("tokenizer", _tokenizer, lambda _: _opened("model"), ("model/tok*", "model/open_clip_config.json"))


def _checkpoint(folder: Path) -> None:
    shutil.copytree(_tiny_folder(), folder / "model")
    shutil.copyfile(_tiny_folder().parent / "tiny.json", folder / "tiny.json")


def _opened(ref: str, model: str = "", activation: str = "") -> None:
    from compclip.model import backbone

    opened = backbone.load(ref, model, activation=activation)
    opened.tokenize(["a red cup"])


def _created(model: str) -> None:
    from compclip.model import backbone

    backbone.create(model)


def _pickled(folder: Path) -> None:
    import torch

    _checkpoint(folder)
    torch.save(_tiny().clip.state_dict(), folder / "weights.pt")


def _archive(folder: Path) -> None:
    import torch

    class Holder(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    def part(above: torch.nn.Module, name: str) -> torch.nn.Module:
        if not hasattr(above, name):
            above.add_module(name, Holder())
        return getattr(above, name)

    _checkpoint(folder)
    config = json.loads((folder / "tiny.json").read_text())
    (folder / "tiny.json").write_text(json.dumps(config | {"quick_gelu": True}))  # as OpenAI's archives are
    holder = Holder()
    for path, value in _tiny().clip.state_dict().items():
        *parts, name = path.split(".")
        functools.reduce(part, parts, holder).register_buffer(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the format is to go, OpenAI's files are there
        made = torch.jit.script(holder)
    made.save(str(folder / "weights.pt"))


def _fresh() -> Any:
    from compclip.model import backbone

    return backbone.load("model").clip


def _adapter(folder: Path) -> None:
    from compclip.config.sections import Lora
    from compclip.model import backbone, lora

    _checkpoint(folder)
    clip = backbone.load(folder / "model").clip
    lora.inject(clip, Lora(), ("image", "text"))
    lora.finish(clip, folder / "adapter")


def _adapted(_: random.Random) -> None:
    from compclip.model import lora

    lora.load(_fresh(), "adapter")


def _training(folder: Path) -> None:
    """Two checkpoints of a run, as a kill leaves them."""
    from compclip.model import backbone
    from compclip.train import checkpoint

    _checkpoint(folder)
    clip = backbone.load(folder / "model").clip
    adamw = _adamw(clip)
    for step in (1, 2):
        sum(parameter.sum() for parameter in clip.parameters()).backward()
        adamw.step()
        checkpoint.write(folder / "run", step, clip, adamw, {"dropped": {}})


def _adamw(clip: Any) -> Any:
    from compclip.config.sections import Train
    from compclip.train import optimiser

    return optimiser.adamw(clip, Train())


def _resumed(_: random.Random) -> None:
    from compclip.train import checkpoint

    clip = _fresh()
    checkpoint.read(Path("run"), clip, _adamw(clip))


def _tokenizer(folder: Path) -> None:
    _checkpoint(folder)
    config = folder / "model" / "open_clip_config.json"
    found = json.loads(config.read_text())
    found["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = "bert-base-uncased"
    config.write_text(json.dumps(found))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "cup"]
    coder = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "model" / "tokenizer.json").write_text(json.dumps(coder))
    (folder / "model" / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "sep_token": "[SEP]"})
    )


def _endpoint() -> Iterator[Reader]:
    answer = {"choices": [{"message": {"content": "a cup"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    yield Reader("endpoint", lambda folder: formats.write(folder, {"answer.json": answer}), _answered)


def _answered(_: random.Random) -> None:
    """An answer with no more to it than its bytes; the server's other ways are tried over HTTP in their own tests."""
    from compclip.data import chat

    path = Path("answer.json")
    try:
        chat._parsed(path.read_bytes() if path.is_file() else b"", 0)
    except chat._Failed:
        return


def _runs() -> Iterator[Reader]:
    from tests import fake_runs

    files = ("runs/**/*", "results/**/*")
    yield Reader("runs:report", lambda folder: fake_runs.make(folder) and None, _collected, files)
    yield Reader("runs:store", _stored, _listed, ("store/**/*", "store/**/*.json*", "runs/**/*"))
    yield Reader("runs:read", lambda folder: fake_runs.make(folder) and None, _read_runs, files)


def _stored(folder: Path) -> None:
    """Two finished runs of a store, one of them published, and one that is being trained."""
    from tests import fake_store

    first, second, third = fake_store.runs(fake_store.project(folder, seeds=3))
    fake_store.finish(first, publish=True)
    fake_store.finish(second)
    third.folder.path.mkdir(parents=True)
    (third.folder.path / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0, "time": 1.7e9}\n')


def _listed(_: random.Random) -> None:
    from compclip.runs import __main__ as runs_command
    from compclip.runs import status

    status.page("params.yaml", 120)
    runs_command.main(["list"])
    runs_command.main(["gc", "--keep-grids", "params.yaml", "--dry-run"])


def _collected(_: random.Random) -> object:
    from compclip.report import collect
    from tests import fake_runs

    return collect.collect(fake_runs.cells(), list(fake_runs.BENCHMARKS), HERE)


def _read_runs(_: random.Random) -> None:
    from compclip.runs import results
    from compclip.runs.folder import Published
    from tests import fake_runs

    for cell in fake_runs.cells():
        place = Published(HERE, cell)
        results.read(place.trained, place.results)


def _tables() -> Iterator[Reader]:
    yield Reader("claims", _copied("experiments/claims.yaml"), _claimed)
    yield Reader("published", _copied("experiments/published"), _published)
    yield Reader("samples", _prepared, _samples, ("data/x/*.parquet",))


def _claimed(_: random.Random) -> object:
    from compclip.report import claims

    return claims.read(Path("experiments/claims.yaml"))


def _published(_: random.Random) -> object:
    from compclip.report import published

    return published.rows(published.read(Path("experiments/published")))


def _prepared(folder: Path) -> None:
    from compclip.data import store
    from compclip.data.sample import Sample
    from compclip.text import annotation
    from compclip.text.annotate import annotate

    (folder / "data" / "x").mkdir(parents=True)
    made = annotate(list(formats.TWO), processes=1, counts=Counter())
    store.save(folder / "data/x/samples.parquet", [Sample("a", "a.png", formats.TWO)])
    annotation.save(folder / "data/x/annotations.parquet", made)


def _samples(_: random.Random) -> None:
    from compclip.data import store
    from compclip.text import annotation

    store.load("data/x/samples.parquet")
    annotation.load("data/x/annotations.parquet")


def _arguments() -> Iterator[Reader]:
    for name, options in OPTIONS.items():
        yield Reader(f"arguments:{name}", _project, _called(name, options), ())


def _project(folder: Path) -> None:
    from tests import fake_runs

    _copied("params.yaml", "slurm", "experiments/studies")(folder)
    fake_runs.make(folder)


# What each command is tried with: words that mean something to it, and others.
OPTIONS: dict[str, tuple[str, ...]] = {
    "config": ("check", "show", "use", "plan", "--out", "--params", "pretrained-scenes-scenes-0", "train.lr=1"),
    "data.prepare": ("--data", "scenes", "--rewrite", "--annotate", "--params"),
    "model": ("--backbone", "scenes", "--params"),
    "evaluate": (
        "--cell",
        "--checkpoint",
        "--census",
        "--model",
        "--benchmarks",
        "--out",
        "--device",
        "--params",
        "cpu",
    ),
    "train": ("--cell", "--method", "--params", "clic"),
    "report": ("--partial", "--out", "--params", "--root"),
    "runs": ("list", "keep", "remove", "gc", "--dry-run", "--keep-grids"),
    "runs.status": ("--params", "--all", "-n"),
    "launch": ("slurm/a100.yaml", "--dry-run", "--cell", "--params"),
    "sweep": ("--study", "--list", "--trials", "--storage", "--params"),
}


def _called(name: str, options: tuple[str, ...]) -> Callable[[random.Random], object]:
    def read(rng: random.Random) -> object:
        import importlib

        module = f"compclip.{name}"
        main = importlib.import_module(module if name in ("data.prepare", "runs.status") else f"{module}.__main__").main
        words = [rng.choice(options) if rng.random() < 0.6 else mutate.text(rng) for _ in range(rng.randint(0, 5))]
        return main(words if name != "launch" or "--dry-run" in words else [*words, "--dry-run"])

    return read
