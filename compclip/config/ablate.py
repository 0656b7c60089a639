"""The ablation of a method: a grid of the method as it is, and of it without one part at a time.

A part is a field that says how it is left out (`base.parts`), of the method's own Config, or of its training where
`methods.<name>.train` says something else than `train`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import parts, plugins, yaml_text
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text, write_atomic
from compclip.base.parts import Part
from compclip.config import read
from compclip.config.cell import PRETRAINED
from compclip.config.grid import method_config
from compclip.config.sections import Params, Train
from compclip.config.structured import mapping
from compclip.config.switch import GRIDS
from compclip.config.written import grid_yaml

SEAL = re.compile(r"# \S+ as it was written\n")
LENGTH = 16  # characters of a seal's hash
REFERENCE = re.compile(r"\$\{methods\.([\w+-]+)")
RELATIVE = "${."


@dataclass(frozen=True)
class Ablation:
    """A method, its overlays by variant, each of which leaves out one part, and the parts that it has not anyway."""

    method: str
    variants: Mapping[str, dict[str, Any]]
    already: tuple[str, ...]

    @property
    def base(self) -> str:
        """The method's own name, where it is a variant."""
        return self.method.partition(".")[0]

    @property
    def methods(self) -> list[str]:
        """Those of the grid."""
        return [PRETRAINED, self.method, *(f"{self.base}.{name}" for name in self.variants)]


def write(
    method: str, source: str | Path, overrides: Sequence[str] = (), out: Path | None = None, force: bool = False
) -> tuple[Path, Ablation, Params]:
    """Write the grid of a method's ablation, made of the parameters `source`: where, what it holds, and as checked.

    Raises UserError for a method that is not there or has no part, and for a file of somebody else's in its place
    unless `force`.
    """
    made = ablation(read.load(source, overrides), method)
    target = out or GRIDS / f"ablate_{method.replace('.', '_')}.yaml"
    sections = _sections(yaml_text.unresolved(read.overridden(source, overrides)), made)
    text = _sealed(_header(made, source, overrides), grid_yaml(sections))
    params = read.checked(yaml_text.parsed(text, str(source), read.NO_SECTIONS), str(source), together=True)
    if not force:
        _check_free(target)
    write_atomic(target, text)
    return target, made, params


def ablation(params: Params, method: str) -> Ablation:
    """A method's parts, as params.yaml has it, on any data set of the grid. Raises UserError where it has none."""
    kind = plugins.find(plugins.METHODS, method.partition(".")[0])
    found = [method_config(params, method, data) for data in params.grid.data]
    own, trains = parts.declared(kind.Config), parts.declared(Train)
    ours = {name for name in own if any(not parts.is_out(cfg, name) for cfg, _ in found)}
    schedule = {name for name in trains if any(_is_its_own(train, params.train, name) for _, train in found)}
    variants = {_variant(n, trains[n]): {"train": {n: trains[n].off}} for n in trains if n in schedule}
    variants |= {_variant(n, own[n]): _overlay(n, own[n], [cfg for cfg, _ in found]) for n in own if n in ours}
    already = tuple(name for name in own if name not in ours)
    if not variants:
        why = f"left out already: {', '.join(already)}" if already else "declares no part to leave out"
        raise UserError(f"method {method!r}: {why}; name another method, or write its variants by hand")
    return Ablation(method, variants, already)


def told(made: Ablation) -> list[str]:
    """A line for each variant with what it changes, and one for what is left out of the method anyway."""
    wide = max(map(len, made.variants))
    lines = [f"  {made.base}.{name:<{wide}}  {_flat(overlay)}" for name, overlay in made.variants.items()]
    return [*lines, *([f"Left out of {made.method} already: {', '.join(made.already)}"] if made.already else [])]


def _flat(overlay: Mapping[str, Any]) -> str:
    """Keys with values, those of the training by its name."""
    train = {f"train.{key}": value for key, value in overlay.get("train", {}).items()}
    own = {key: value for key, value in overlay.items() if key != "train"}
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in (train | own).items())


def _is_its_own(train: Train, common: Train, name: str) -> bool:
    """Whether a part of the training is the method's: the schedule of all methods is nobody's."""
    return getattr(train, name) != getattr(common, name) and not parts.is_out(train, name)


def _variant(field: str, known: Part) -> str:
    return f"without_{known.name or field.removeprefix('lambda_')}"


def _overlay(field: str, known: Part, found: Sequence[Any]) -> dict[str, Any]:
    """The part's own value, and those along with it that are not so already."""
    along = {k: v for k, v in known.along.items() if any(getattr(cfg, k) != v for cfg in found)}
    return {field: known.off, **along}


def _sections(raw: dict[str, Any], made: Ablation) -> dict[str, Any]:
    """The parameters with the ablation in place of their grid: its methods, and who is compared with whom."""
    lines = mapping(raw.get("wise_ft"), "wise_ft")
    lines |= {"methods": [name for name in lines.get("methods") or [] if name in made.methods]}
    return raw | {
        "grid": mapping(raw.get("grid"), "grid") | {"methods": made.methods},
        "methods": _methods(raw, made),
        "wise_ft": lines,
        "report": mapping(raw.get("report"), "report") | {"reference": made.method},
    }


def _methods(raw: dict[str, Any], made: Ablation) -> dict[str, Any]:
    """The method with its variants, and of the others those that a value refers to."""
    every = mapping(raw.get("methods"), "methods")
    own = mapping(every.get(made.base), f"methods.{made.base}")
    chosen = made.method.partition(".")[2]
    start = mapping(own.get("variants"), "variants").get(chosen) or {}
    whole = {chosen: start} if chosen else {}
    variants = whole | {name: _over(start, overlay) for name, overlay in made.variants.items()}
    kept = {name: every[name] for name in every if name in _referred(raw)}
    return {PRETRAINED: every.get(PRETRAINED) or {}} | kept | {made.base: own | {"variants": variants}}


def _over(start: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A variant with further values, those of its training beside the ones it has."""
    train = mapping(start.get("train"), "train") | overlay.get("train", {})
    return {**start, **overlay, **({"train": train} if train else {})}


def _referred(raw: dict[str, Any]) -> set[str]:
    """The methods that some value refers to; all of them where one refers to its neighbours."""
    text = str(raw)
    return set(mapping(raw.get("methods"), "methods")) if RELATIVE in text else set(REFERENCE.findall(text))


def _header(made: Ablation, source: str | Path, overrides: Sequence[str]) -> str:
    given = f" with {', '.join(overrides)}" if overrides else ""
    return (
        f"# Ablation of {made.method}: as it is, and without one part at a time.\n"
        f"# Made of {one_line(str(source))}{one_line(given)} by `python -m compclip.config ablate {made.method}`.\n"
    )


def _sealed(header: str, body: str) -> str:
    """With a hash of the text, by which the next ablation knows a file that nobody edited."""
    return f"{header}# {_hash(header + body)} as it was written\n{body}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _check_free(path: Path) -> None:
    """Raise UserError for what is there and was not written here, or was edited."""
    if not path.exists() and not path.is_symlink():
        return
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    text = read_text(path)
    seal = SEAL.search(text)
    if not seal or seal[0].split()[1] != _hash(text.replace(seal[0], "", 1)):
        raise UserError(f"{path}: is there, and is no ablation as it was written; give another --out, or --force")
