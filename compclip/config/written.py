"""A resolved run as the text of its config.yaml.

The same text as OmegaConf's own, without its import: that takes longer than to publish a finished run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

WORDS = ("y", "yes", "n", "no", "true", "false", "on", "off")
WIDTH, MANY = 110, 6  # characters of a line, and keys of a mapping that stands on one
BOOLEAN = {form for word in WORDS for form in (word, word.capitalize(), word.upper())}
BASE: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(BASE):
    """Texts that OmegaConf would read as numbers or truth values stand in quotes; nothing is written as an alias."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        quoted = "'" if data in BOOLEAN or _number(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", str(data), style=quoted)


_Dumper.add_multi_representer(str, _Dumper.text)
_Dumper.add_representer(str, _Dumper.text)


class _Grid(_Dumper):
    """A mapping of many keys has a line for each."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        return super().represent_mapping(tag, mapping, flow_style=False if len(mapping) > MANY else flow_style)


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def plain_yaml(resolved: Mapping[str, Any]) -> str:
    """Plain values, a run's cell among them, in the order given."""
    return yaml.dump(dict(resolved), Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)


def grid_yaml(sections: Mapping[str, Any]) -> str:
    """A params.yaml as one writes it: an empty line between sections, short mappings and lists on one line."""
    how: dict[str, Any] = {"default_flow_style": None, "allow_unicode": True, "sort_keys": False, "width": WIDTH}
    return "\n".join(yaml.dump({name: section}, Dumper=_Grid, **how) for name, section in sections.items())
