"""Every dependency has bounds that were tried, and constraints.txt is inside them (CONTRIBUTING.md says how to try)."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
TOML = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LISTS = {
    "build": TOML["build-system"]["requires"],
    "dependencies": TOML["project"]["dependencies"],
    **TOML["project"]["optional-dependencies"],
}
REQUIREMENTS = [(group, Requirement(text)) for group, texts in LISTS.items() for text in texts]


def read_pins() -> dict[str, Version]:
    """Return each package of constraints.txt and its version."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): Version(version) for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize(("group", "requirement"), REQUIREMENTS, ids=lambda value: str(value))
def test_bounds_hold_the_pinned_version(group, requirement):
    """One lower and one upper bound; the upper is a major version, or a minor one below 1.0; the pin is between them."""
    bounds = {bound.operator: Version(bound.version) for bound in requirement.specifier}
    assert bounds.keys() == {">=", "<"}, f"{group}: give {requirement.name} bounds (CONTRIBUTING.md)"
    assert len(bounds["<"].release) == (2 if bounds["<"].major == 0 else 1)
    pinned = read_pins().get(canonicalize_name(requirement.name))
    assert pinned is None or pinned in requirement.specifier


def test_a_package_has_the_same_bounds_wherever_it_stands():
    """The extras repeat packages: an edit of one line is an edit of all."""
    bounds = {}
    for _, requirement in REQUIREMENTS:
        bounds.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    assert {name: each for name, each in bounds.items() if len(each) > 1} == {}


def test_what_compclip_needs_is_pinned():
    """constraints.txt names each dependency of an installation without extras."""
    pins = read_pins()
    assert {canonicalize_name(Requirement(text).name) for text in LISTS["dependencies"]} <= pins.keys()


def test_the_weekly_check_names_tests_that_exist():
    """A test that moved would fail it for every package."""
    names = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", (ROOT / ".ci/versions").read_text(encoding="utf-8"))
    missing = [
        path for path, name in names if not (ROOT / path).is_file() or f"def {name}" not in (ROOT / path).read_text()
    ]
    assert names and missing == []
