"""Every reader of what comes from outside, by where it comes from: each file here gives its own."""

import importlib
import pkgutil

from perf.faults.fuzz.reader import Reader


def list_readers() -> list[Reader]:
    """All readers, by name."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return sorted((reader for module in modules for reader in module.readers()), key=lambda reader: reader.name)
