"""Link the packages that a wheel declares from this environment into another: `link_declared.py WHEEL ENVIRONMENT`.

What is installed here and not declared, by the wheel or by what it needs, is missing there, as for somebody who
installs the wheel alone; and nothing is downloaded or copied a second time.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def read_requirements(wheel: str) -> list[str]:
    """Return what a wheel's metadata declares."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])


def find_declared(declared: list[str]) -> Iterator[Distribution]:
    """Yield the installed distributions that are declared, and those that they declare themselves, once each."""
    waiting, visited = [(line, "") for line in declared], set()
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        installed, name = distribution(requirement.name), canonicalize_name(requirement.name)
        if not requirement.specifier.contains(installed.version, prereleases=True):
            sys.exit(f"{name} {installed.version} is installed, {requirement} is declared")
        for extra_name in {"", *requirement.extras} - {e for n, e in visited if n == name}:
            waiting += [(further, extra_name) for further in installed.requires or ()]
        if (name, "") not in visited:
            yield installed
        visited |= {(name, extra_name) for extra_name in {"", *requirement.extras}}


def link(installed: Distribution, environment: Path) -> None:
    """Link a distribution's files, and write its commands anew for the other environment's Python."""
    target = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        link_path = target / file
        link_path.parent.mkdir(parents=True, exist_ok=True)
        if not link_path.exists():  # some packages hold the same files
            os.link(file.locate(), link_path)
    for command in installed.entry_points.select(group="console_scripts"):
        script = environment / "bin" / command.name
        imported = f"import sys\nfrom {command.module} import {command.attr.partition('.')[0]}\n"
        script.write_text(f"#!{environment / 'bin' / 'python'}\n{imported}sys.exit({command.attr}())\n")
        script.chmod(0o755)


if __name__ == "__main__":
    for package in find_declared(read_requirements(sys.argv[1])):
        link(package, Path(sys.argv[2]))
