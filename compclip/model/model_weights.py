"""Which tensors of a file are the model's: below keys, behind a wrapper's prefix, or beside a loss's or an average's.

Every layout that is read here has a name of ROOTS. What stands before it, keys and prefix, is the model's, whatever a
trainer called it: `state_dict.module.` of open_clip's, `module.` of DeepSpeed's, `state_dict.net.` of Lightning's,
`state_dict_ema.` of a moving average. Names of wrappers within a model are taken out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compclip.base import messages
from compclip.base.errors import UserError

ROOTS = re.compile(r"(|.*?\.)(?:visual|vision_model|text_model|logit_scale)(?:\.|$)")
WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_fsdp_wrapped_module|_checkpoint_wrapped_module|_forward_module|_orig_mod|base_layer)\."
)
AVERAGE = re.compile(r"(?:^|[._])(?:ema|swa|shadow|averaged?)(?:[._]|$)")
MAX_DEPTH, MAX_SECTIONS = 4, 1000  # of keys above a tensor's own; of mappings that are looked into
FEW = 3  # names in a note


@dataclass(frozen=True)
class Entry:
    """A value of a file: the keys above it, each with a dot behind, and its own name without those of wrappers."""

    section: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """The keys and the name."""
        return self.section + self.name


def select_model(content: Any, path: Path, choice: str = "") -> Any:
    """Return the entries of a file's model by their names in it; content without a model is returned as it is.

    `choice`: a word of the prefix of the model that is meant where a file holds several; without it, a moving average
    is read only where it stands alone. A note says what was taken off and left out. Raises UserError where not one
    model is meant.
    """
    entries = list(_walk(content, "", set()))
    prefixes = _find_prefixes(entries)
    if not prefixes and not choice:
        return content
    prefix = _choose_prefix(prefixes, path, choice)
    unread_prefixes = [candidate for candidate in prefixes if candidate != prefix]
    foreign = tuple(candidate for candidate in unread_prefixes if candidate.startswith(prefix))
    chosen = [entry for entry in entries if entry.path.startswith(prefix) and not entry.path.startswith(foreign)]
    state = {entry.path.removeprefix(prefix): entry.value for entry in chosen}
    if len(state) < len(chosen):
        raise UserError(f"{path}: has a name twice, with a wrapper's and without; save the bare model's state_dict")
    sections = {entry.section for entry in chosen}
    beside = [entry.path for entry in entries if entry.section in sections and not entry.path.startswith(prefix)]
    _tell_choice(
        path, prefix, unread_prefixes, [name for name in beside if not name.startswith(tuple(unread_prefixes))]
    )
    return state


def _walk(content: Any, section: str, visited: set[int]) -> Iterator[Entry]:
    """Yield what stands in a mapping and in those below it; each of these is entered once."""
    if not isinstance(content, dict) or id(content) in visited or len(visited) > MAX_SECTIONS:
        return
    visited.add(id(content))
    for name, value in content.items():
        if isinstance(name, str) and isinstance(value, dict):
            yield from _walk(value, f"{section}{name}.", visited) if section.count(".") < MAX_DEPTH else ()
        elif isinstance(name, str):
            yield Entry(section, WRAPPERS.sub("", name), value)


def _find_prefixes(entries: Sequence[Entry]) -> list[str]:
    """Return the prefixes of a file's models; the scale that a loss has beside one is none."""
    roots = [(entry.section, ROOTS.match(entry.name)) for entry in entries]
    counts = Counter(f"{section}{root[1]}" for section, root in roots if root)
    return [prefix for prefix, count in counts.items() if 2 * count >= max(counts.values())]


def _choose_prefix(prefixes: Sequence[str], path: Path, choice: str) -> str:
    """Return the one that a word stands in; without a word the bare one, or the only one that is no average's."""
    suitable = [prefix for prefix in prefixes if choice in prefix] if choice else [p for p in prefixes if not p]
    if not choice and not suitable:
        suitable = [prefix for prefix in prefixes if not AVERAGE.search(prefix)] or list(prefixes)
    if len(suitable) != 1:
        names = ", ".join(repr(prefix[:80]) for prefix in prefixes[:8]) or "no name of a model"
        fault = f"--weights {choice}: fits {len(suitable)} of its models" if choice else "holds several models"
        raise UserError(f"{path}: {fault}, below {names}; give --weights with a word that one of these has")
    return suitable[0]


def _tell_choice(path: Path, prefix: str, unread_prefixes: Sequence[str], beside: Sequence[str]) -> None:
    """Say which names were read, and what stands beside them."""
    phrases = [f"weights below {prefix[:80]!r}"] if prefix else []
    phrases += [f"not those below {candidate[:80]!r} (--weights)" for candidate in unread_prefixes]
    if beside:
        phrases.append(f"without {name_few(beside)}")
    if phrases:
        messages.note(f"{path}: read {', '.join(phrases)}")


def name_few(names: Sequence[str]) -> str:
    """Return the first of some names, and how many there are."""
    remainder = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(repr(name[:80]) for name in names[:FEW]) + remainder
