"""Build the ablation of a method: a grid with the method as it is, and with one part left out at a time.

A part is a field that declares how it is left out (`base.ablation_parts`). It is a field of the method's own Config, or
a field of Train for which the method has another value than the section `train`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import ablation_parts, yaml_text
from compclip.base.errors import UserError, one_line
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.config.cell import PRETRAINED
from compclip.config.grid import method_config
from compclip.config.sections import Params, Train
from compclip.config.validation import mapping
from compclip.interface.method import load_method

REFERENCE = re.compile(r"\$\{methods\.([\w+-]+)")


@dataclass(frozen=True)
class Ablation:
    """A method, and for each variant the parameters that leave out one part."""

    method: str
    variants: Mapping[str, dict[str, Any]]

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
    """Write the grid of a method's ablation, based on the file `source`; return its path, the ablation and the grid.

    Raises UserError for an unknown method, for one without parts, and if the file exists already, unless `force`.
    """
    result = build_ablation(read.load_params(source, overrides), method)
    target = out or read.GRIDS / f"ablate_{method.replace('.', '_')}.yaml"
    sections = _build_sections(yaml_text.to_unresolved(read.read_with_overrides(source, overrides)), result)
    suffix = f" with {', '.join(overrides)}" if overrides else ""
    header = (
        f"# Ablation of {method}: as it is, and with one part left out at a time.\n"
        f"# Made from {one_line(f'{source}{suffix}')} by `compclip config ablate {method}`.\n"
    )
    text = header + yaml_text.dump_yaml(sections)
    params = read.check_params(yaml_text.parse_yaml(text, str(source), read.NO_SECTIONS), str(source), together=True)
    if not force and os.path.lexists(target):
        raise UserError(f"{target}: exists already; give another --out, or --force")
    write_atomic(target, text)
    return target, result, params


def build_ablation(params: Params, method: str) -> Ablation:
    """Return the ablation of a method on the grid's data sets. Raises UserError if it has no part to leave out."""
    configs, trains = zip(*(method_config(params, method, data) for data in params.grid.data), strict=True)
    variants: dict[str, dict[str, Any]] = {}
    for name, part in ablation_parts.list_parts(Train).items():
        common = getattr(params.train, name)  # what all methods share is not a part of this one
        if any(getattr(t, name) != common and not ablation_parts.is_left_out(t, name) for t in trains):
            variants[f"without_{part.name or name}"] = {"train": {name: part.off}}
    already = []
    for name, part in ablation_parts.list_parts(load_method(method).Config).items():
        if all(ablation_parts.is_left_out(config, name) for config in configs):
            already.append(name)
            continue
        overlay = {name: part.off}
        for key, value in part.along.items():
            if any(getattr(config, key) != value for config in configs):
                overlay[key] = value
        variants[f"without_{part.name or name.removeprefix('lambda_')}"] = overlay
    if not variants:
        why = f"all its parts are left out already: {', '.join(already)}" if already else "has no part to leave out"
        raise UserError(f"method {method!r}: {why}; name another method, or write its variants by hand")
    return Ablation(method, variants)


def describe(ablation: Ablation) -> list[str]:
    """Return one line for each variant with the values that it changes."""
    wide = max(map(len, ablation.variants))
    lines = []
    for name, overlay in ablation.variants.items():
        prefix = "train." if "train" in overlay else ""  # a part is a field of the method, or of its training
        values = overlay.get("train", overlay)
        changes = ", ".join(f"{prefix}{key}: {str(value).lower()}" for key, value in values.items())
        lines.append(f"  {ablation.base}.{name:<{wide}}  {changes}")
    return lines


def _build_sections(raw: dict[str, Any], ablation: Ablation) -> dict[str, Any]:
    """Return the sections of the ablation's params.yaml: its own grid, methods and reference, the rest as in `raw`."""
    lines = mapping(raw.get("wise_ft"), "wise_ft")
    lines["methods"] = [name for name in lines.get("methods") or [] if name in ablation.methods]
    return raw | {
        "grid": mapping(raw.get("grid"), "grid") | {"methods": ablation.methods},
        "methods": _build_methods(raw, ablation),
        "wise_ft": lines,
        "report": mapping(raw.get("report"), "report") | {"reference": ablation.method},
    }


def _build_methods(raw: dict[str, Any], ablation: Ablation) -> dict[str, Any]:
    """Return the section `methods`: the method with its variants, and other methods that a value refers to."""
    methods = mapping(raw.get("methods"), "methods")
    method = mapping(methods.get(ablation.base), f"methods.{ablation.base}")
    variant = ablation.method.partition(".")[2]
    start = mapping(mapping(method.get("variants"), "variants").get(variant), variant)
    variants = {variant: start} if variant else {}
    for name, overlay in ablation.variants.items():
        train = mapping(start.get("train"), "train") | overlay.get("train", {})
        variants[name] = {**start, **overlay, **({"train": train} if train else {})}
    text = str(raw)
    referenced = set(methods) if "${." in text else set(REFERENCE.findall(text))  # a relative reference may mean any
    referenced_methods = {name: value for name, value in methods.items() if name in referenced}
    return (
        {PRETRAINED: methods.get(PRETRAINED) or {}}
        | referenced_methods
        | {ablation.base: method | {"variants": variants}}
    )
