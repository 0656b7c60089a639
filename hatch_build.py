"""Put into the wheel what `compclip init` lays out; an editable install has the checkout for that."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# compclip/config/project_files.py, and params.yaml
PROJECT_FILES = (
    ".dvc/config", ".dvcignore", ".gitignore", "dvc.yaml", "params.yaml", "experiments/backbones",
    "experiments/claims.yaml", "experiments/grids", "experiments/published",
    "experiments/scenes/dvc.yaml", "experiments/studies", "slurm",
)  # fmt: skip


class ProjectFiles(BuildHookInterface):
    """Adds the project files below compclip/project_files."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add them to a wheel of the usual kind."""
        if version == "standard":
            build_data["force_include"] |= {name: f"compclip/project_files/{name}" for name in PROJECT_FILES}
