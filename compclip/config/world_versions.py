"""The numbers of the world's pretrained models: `scenes.pretrain`, and what a version in `scenes.versions` changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from compclip.base.errors import unknown
from compclip.config.sections import Params, Pretrain, World
from compclip.config.validation import load_section


def resolve_pretraining(world: World, name: str) -> tuple[Pretrain, int]:
    """Return how the backbone `name` is pretrained, and from which seed: a version's own numbers over the world's.

    Raises UserError naming the key for a number that a version cannot have.
    """
    version = world.versions.get(name)
    if version is None:
        return world.pretrain, world.seed
    where = f"scenes.versions.{name}.pretrain"
    return load_section(Pretrain, {**asdict(world.pretrain), **version.pretrain}, where), version.seed


def check_versions(params: Params) -> None:
    """Raise UserError for a version that is no backbone, or whose numbers cannot be."""
    for name in params.scenes.versions:
        if name not in params.backbones:
            raise unknown("backbone", name, params.backbones, "scenes.versions")
        resolve_pretraining(params.scenes, name)


def describe_pretraining(world: World, name: str) -> dict[str, Any]:
    """Return what a version's weights are made of, for its plan; empty for a backbone that is none."""
    if name not in world.versions:
        return {}
    pretrain, seed = resolve_pretraining(world, name)
    return {"pretrain": asdict(pretrain), "pretrain_seed": seed}
