"""What a run's key was made of, written into its folder when it is trained (code.json), so that it can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from compclip.base import yaml_text
from compclip.base.errors import UserError
from compclip.base.files import read_mapping, write_json
from compclip.config import grid, training_code
from compclip.config.grid import Run
from compclip.runs import inventory, run_store
from compclip.runs.run_folder import Inputs, RunFolder


@dataclass(frozen=True)
class KeyParts:
    """Fingerprints of the data, of the backbone and of all that was read; each module's hash by its name.

    `code` is what the key has of the modules; empty of runs that are older than versions of numbers.
    """

    data: str
    backbone: str
    inputs: str
    modules: Mapping[str, str]
    code: str = ""


@dataclass(frozen=True)
class ModuleChanges:
    """The modules that differ between two runs' code."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)


@dataclass(frozen=True)
class RecordedRun:
    """A finished run of the store: config.yaml as it is, environment.json, and code.json, which older ones lack."""

    folder: RunFolder
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    key_parts: KeyParts | None

    @property
    def device_seconds(self) -> float:
        """Seconds times devices that its training took."""
        return float(self.facts.get("device_seconds") or 0.0)

    def complete_config(self) -> Mapping[str, Any]:
        """Return its parameters with options that are new since then at their defaults.

        Raises UserError for a parameter that is gone.
        """
        return grid.parse_run(self.config, str(self.folder.final.config)).plain

    @property
    def finished_at(self) -> float:
        """When it was finished, in seconds since the epoch."""
        return self.folder.final.environment.stat().st_mtime


def describe_key(run: Run, root: Path) -> KeyParts:
    """Return what a run's key is made of now, parameters aside. Raises UserError for inputs that are not there."""
    fingerprints = run_store.hash_run_inputs(run, root)
    backbone = run_store.hash_backbone(Inputs(root, run.cell))
    method = run.method_name
    modules = training_code.hash_training_modules(method)
    code = training_code.hash_training_code(method)
    return KeyParts(fingerprints.data, backbone, fingerprints.all, modules, code)


def write_parts(folder: RunFolder, key: KeyParts) -> None:
    """Write code.json."""
    write_json(folder.code, asdict(key))


def read_parts(folder: RunFolder) -> KeyParts | None:
    """Read code.json; None where the run is older than that file. Raises UserError for a damaged one."""
    if not folder.code.is_file():
        return None
    try:
        return KeyParts(**read_mapping(folder.code))
    except TypeError as error:
        raise UserError(f"{folder.code}: damaged ({error}); remove the file") from error


def compare_modules(method: str, recorded: KeyParts, current: KeyParts) -> ModuleChanges:
    """Return which modules differ, sorted by name; none where both have the same version of the numbers."""
    old, new = recorded.modules, current.modules
    if current.code == (recorded.code or training_code.name_code(method, old)):
        return ModuleChanges((), (), ())
    changed = tuple(sorted(name for name in old.keys() & new.keys() if old[name] != new[name]))
    return ModuleChanges(changed, tuple(sorted(new.keys() - old.keys())), tuple(sorted(old.keys() - new.keys())))


def list_recorded(root: Path, method: str) -> Iterator[RecordedRun]:
    """Yield the finished runs of a method's module, variants included; what cannot be read is left out."""
    store = run_store.store_folder(root)
    for folder in [RunFolder(path) for path in sorted(store.glob("*")) if inventory.KEY.fullmatch(path.name)]:
        try:
            folder.check()
            cell = inventory.read_cell(folder.final.config) if folder.finished else {}
            if str(cell.get("method", "")).partition(".")[0] != method:
                continue
            config = yaml_text.to_plain(
                yaml_text.read_yaml(folder.final.config, "must be a mapping of sections"), str(folder.final.config)
            )
            yield RecordedRun(folder, config, folder.final.facts(), read_parts(folder))
        except UserError:  # somebody else's, or damaged: `compclip runs` says so
            continue


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys; tuples become lists, as files have them."""
    if isinstance(value, Mapping) and value:
        items = [flatten(inner, f"{prefix}.{key}" if prefix else str(key)) for key, inner in value.items()]
        return {key: inner for item in items for key, inner in item.items()}
    return {prefix: list(value) if isinstance(value, tuple) else value} if prefix else {}
