"""The ablation of a method: a grid of the method as it is, and of it without one part at a time.

A part is a field that says how it is left out (`base.ablation_parts`), of the method's own Config, or of its training
where `methods.<name>.train` says something else than `train`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import ablation_parts, yaml_text
from compclip.base.ablation_parts import Part
from compclip.base.errors import UserError, one_line
from compclip.base.files import read_text, write_atomic
from compclip.base.yaml_text import dump_yaml
from compclip.config import read
from compclip.config.grid import PRETRAINED, method_config
from compclip.config.read import GRIDS
from compclip.config.sections import Params, Train
from compclip.config.validation import mapping
from compclip.interface.method import load_method

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
        """The method's name without its variant."""
        return self.method.partition(".")[0]

    @property
    def methods(self) -> list[str]:
        """The methods of the ablation's grid."""
        return [PRETRAINED, self.method, *(f"{self.base}.{name}" for name in self.variants)]


def write_grid(
    method: str, source: str | Path, overrides: Sequence[str] = (), out: Path | None = None, force: bool = False
) -> tuple[Path, Ablation, Params]:
    """Write the grid of a method's ablation, made of the parameters `source`: where, what it holds, and as checked.

    Raises UserError for a method that is not there or has no part, and for a file of somebody else's in its place
    unless `force`.
    """
    result = build_ablation(read.load_params(source, overrides), method)
    target = out or GRIDS / f"ablate_{method.replace('.', '_')}.yaml"
    sections = _build_sections(yaml_text.to_unresolved(read.read_with_overrides(source, overrides)), result)
    text = _add_seal(_header(result, source, overrides), dump_yaml(sections))
    params = read.check_params(yaml_text.parse_yaml(text, str(source), read.NO_SECTIONS), str(source), together=True)
    if not force:
        _check_free(target)
    write_atomic(target, text)
    return target, result, params


def build_ablation(params: Params, method: str) -> Ablation:
    """Return the ablation of a method on the grid's data sets. Raises UserError where it has no part to leave out."""
    kind = load_method(method)
    configs = [method_config(params, method, data) for data in params.grid.data]
    method_parts, train_parts = ablation_parts.list_parts(kind.Config), ablation_parts.list_parts(Train)
    active_parts = {
        name for name in method_parts if any(not ablation_parts.is_left_out(cfg, name) for cfg, _ in configs)
    }
    active_train_parts = {
        name for name in train_parts if any(_differs_from_common(train, params.train, name) for _, train in configs)
    }
    variants: dict[str, dict[str, Any]] = {}
    for name, part in train_parts.items():
        if name in active_train_parts:
            variants[_variant_name(name, part)] = {"train": {name: part.off}}
    for name, part in method_parts.items():
        if name in active_parts:
            variants[_variant_name(name, part)] = _overlay(name, part, [cfg for cfg, _ in configs])
    already = tuple(name for name in method_parts if name not in active_parts)
    if not variants:
        why = f"left out already: {', '.join(already)}" if already else "declares no part to leave out"
        raise UserError(f"method {method!r}: {why}; name another method, or write its variants by hand")
    return Ablation(method, variants, already)


def describe(ablation: Ablation) -> list[str]:
    """Return a line for each variant with what it changes, and one for parts that are left out already."""
    wide = max(map(len, ablation.variants))
    lines = [
        f"  {ablation.base}.{name:<{wide}}  {_format_overlay(overlay)}" for name, overlay in ablation.variants.items()
    ]
    return [
        *lines,
        *([f"Left out of {ablation.method} already: {', '.join(ablation.already)}"] if ablation.already else []),
    ]


def _format_overlay(overlay: Mapping[str, Any]) -> str:
    """Return keys with values as text; those of the training begin with `train.`."""
    train = {f"train.{key}": value for key, value in overlay.get("train", {}).items()}
    values = {key: value for key, value in overlay.items() if key != "train"}
    return ", ".join(f"{key}: {str(value).lower()}" for key, value in (train | values).items())


def _differs_from_common(train: Train, common: Train, name: str) -> bool:
    """Whether a part of the training is the method's: the schedule of all methods is nobody's."""
    return getattr(train, name) != getattr(common, name) and not ablation_parts.is_left_out(train, name)


def _variant_name(field: str, part: Part) -> str:
    return f"without_{part.name or field.removeprefix('lambda_')}"


def _overlay(field: str, part: Part, configs: Sequence[Any]) -> dict[str, Any]:
    """Return the part's `off` value, and the values that go along with it where they differ."""
    along = {k: v for k, v in part.along.items() if any(getattr(cfg, k) != v for cfg in configs)}
    return {field: part.off, **along}


def _build_sections(raw: dict[str, Any], ablation: Ablation) -> dict[str, Any]:
    """Return the parameters with the ablation's grid, methods and reference."""
    lines = mapping(raw.get("wise_ft"), "wise_ft")
    lines |= {"methods": [name for name in lines.get("methods") or [] if name in ablation.methods]}
    return raw | {
        "grid": mapping(raw.get("grid"), "grid") | {"methods": ablation.methods},
        "methods": _build_methods(raw, ablation),
        "wise_ft": lines,
        "report": mapping(raw.get("report"), "report") | {"reference": ablation.method},
    }


def _build_methods(raw: dict[str, Any], ablation: Ablation) -> dict[str, Any]:
    """Return the method with its variants, and of the others those that a value refers to."""
    methods = mapping(raw.get("methods"), "methods")
    method = mapping(methods.get(ablation.base), f"methods.{ablation.base}")
    variant = ablation.method.partition(".")[2]
    start = mapping(method.get("variants"), "variants").get(variant) or {}
    itself = {variant: start} if variant else {}
    variants = itself | {name: _merge_overlay(start, overlay) for name, overlay in ablation.variants.items()}
    referenced = {name: methods[name] for name in methods if name in _find_referenced_methods(raw)}
    return {PRETRAINED: methods.get(PRETRAINED) or {}} | referenced | {ablation.base: method | {"variants": variants}}


def _merge_overlay(start: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return a variant with further values; those of its training are merged one by one."""
    train = mapping(start.get("train"), "train") | overlay.get("train", {})
    return {**start, **overlay, **({"train": train} if train else {})}


def _find_referenced_methods(raw: dict[str, Any]) -> set[str]:
    """Return the methods that some value refers to; all of them where a reference is relative."""
    text = str(raw)
    return set(mapping(raw.get("methods"), "methods")) if RELATIVE in text else set(REFERENCE.findall(text))


def _header(ablation: Ablation, source: str | Path, overrides: Sequence[str]) -> str:
    suffix = f" with {', '.join(overrides)}" if overrides else ""
    return (
        f"# Ablation of {ablation.method}: as it is, and without one part at a time.\n"
        f"# Made of {one_line(str(source))}{one_line(suffix)} by "
        f"`python -m compclip.config ablate {ablation.method}`.\n"
    )


def _add_seal(header: str, body: str) -> str:
    """Add a hash of the text, by which the next ablation recognises a file that nobody edited."""
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
