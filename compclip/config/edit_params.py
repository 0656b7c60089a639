"""Edit the text of a params.yaml in place: comments, order and all other characters stay as they are.

A YAML parser gives the position of each value in the text; an edit replaces or inserts text there. Keys are a path from
the root: `["train", "lr"]`. The caller checks the edited text before writing it (`read.check_params`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from compclip.base.errors import UserError
from compclip.base.yaml_text import FAST_LOADER

WIDTH = 118  # characters that an entry on one line may have
INDENT = 2


def set_value(text: str, keys: Sequence[str], value: Any) -> str:
    """Return the text with the value at `keys` replaced, or inserted if there is none."""
    if _find_node(text, keys) is None:
        return insert_entry(text, keys[:-1], keys[-1], value)
    return set_typed(text, keys, format_inline(value))


def set_typed(text: str, keys: Sequence[str], typed: str) -> str:
    """Return the text with the YAML `typed`, which is one line, as the value at `keys`."""
    node = _find_node(text, keys)
    if node is None:
        text = insert_entry(text, keys[:-1], keys[-1], 0)  # any value, replaced below by the typed one
        node = _find_node(text, keys)
    assert node is not None
    head, end = text[: node.start_mark.index], text[_find_end(node) :]
    if head.rstrip().endswith(":") and typed:  # also if the old value was below its key
        head = f"{head.rstrip()} "
    return f"{head}{typed}{end}"


def begin_block(text: str, keys: Sequence[str]) -> str:
    """Return the text with an empty mapping at `keys`, so that later entries are written below it, one per line.

    Nothing changes if there is a value already, or if the mapping would be inside brackets.
    """
    if not keys or _find_node(text, keys):
        return text
    text = begin_block(text, keys[:-1])
    parent = _find_node(text, keys[:-1])
    in_brackets = isinstance(parent, yaml.CollectionNode) and parent.flow_style
    return text if in_brackets else set_typed(text, keys, "")


def insert_entry(text: str, keys: Sequence[str], name: str, value: Any) -> str:
    """Return the text with one more entry at the end of the mapping at `keys`, which is created if it is missing.

    Raises UserError if the value at `keys` is not a mapping.
    """
    node = _find_node(text, keys)
    if node is None and keys:
        return insert_entry(text, keys[:-1], keys[-1], {name: value})
    if node is None or _is_empty(node):
        start = node.start_mark.index if node else len(text)
        block = format_entry(name, value, INDENT * len(keys))
        following = text[start:].lstrip(" ")
        return f"{text[:start].rstrip(' ')}\n{block}{following.removeprefix(chr(10))}".lstrip("\n")
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{'.'.join(keys)}: is not a mapping, so {name!r} cannot be added; write it as `key: value`")
    if node.flow_style:
        return _insert_inline(text, node, f"{name}: {format_inline(value)}", [entry for _, entry in node.value])
    block = format_entry(name, value, node.value[0][0].start_mark.column)  # an anchor precedes the mapping
    return _insert_lines(text, _find_end(node), block if keys else f"\n{block}")


def append_item(text: str, keys: Sequence[str], item: Any) -> str:
    """Return the text with one more item at the end of the list at `keys`, unless the list has it.

    Raises UserError if the value at `keys` is not a list.
    """
    node = _find_node(text, keys)
    if node is None or _is_empty(node):
        return set_value(text, keys, [item])
    if not isinstance(node, yaml.SequenceNode):
        raise UserError(f"{'.'.join(keys)}: is not a list, so {item!r} cannot be added; write it as [a, b]")
    if any(isinstance(entry, yaml.ScalarNode) and entry.value == str(item) for entry in node.value):
        return text
    if node.flow_style:
        return _insert_inline(text, node, format_inline(item), node.value)
    line = f"{' ' * node.start_mark.column}- {format_inline(item)}\n"
    return _insert_lines(text, _find_end(node), line)


def format_inline(value: Any) -> str:
    """Return a value as YAML on one line."""
    dumped = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True)
    return dumped.removesuffix("\n").removesuffix("\n...")


def format_entry(name: str, value: Any, indent: int) -> str:
    """Return an entry as one line if it fits, else with its values below it, each formatted in the same way."""
    margin = " " * indent
    line = f"{margin}{format_inline(name)}: {format_inline(value)}\n"
    if len(line) <= WIDTH or not value or not isinstance(value, (dict, list)):
        return line
    if isinstance(value, list):
        below = [f"{margin}{' ' * INDENT}- {format_inline(item)}\n" for item in value]
    else:
        below = [format_entry(key, entry, indent + INDENT) for key, entry in value.items()]
    return "".join([f"{margin}{format_inline(name)}:\n", *below])


def _find_node(text: str, keys: Sequence[str]) -> yaml.Node | None:
    """Return the node at a path of keys, or None if there is none."""
    node = yaml.compose(text, FAST_LOADER)
    for key in keys:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for name, value in entries if name.value == key), None)
    return node


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value and not node.style


def _find_end(node: yaml.Node) -> int:
    """Return where a value ends; the end mark of a block would be after the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _find_end(last[1] if isinstance(last, tuple) else last)
    return node.end_mark.index


def _insert_inline(text: str, node: yaml.CollectionNode, entry: str, values: Sequence[yaml.Node]) -> str:
    """Return the text with one more entry at the end of a list or mapping in brackets."""
    position = values[-1].end_mark.index if values else node.end_mark.index - 1
    separator = ", " if values else ""
    return f"{text[:position]}{separator}{entry}{text[position:]}"


def _insert_lines(text: str, position: int, lines: str) -> str:
    """Return the text with `lines` inserted below the line of a position."""
    end = text.find("\n", position)
    if end < 0:
        return f"{text}\n{lines}"
    return f"{text[: end + 1]}{lines}{text[end + 1 :]}"
