"""Hooks of mkdocs: README.md is the first page; files outside of docs/ that pages link to are copied into the site.

What `compclip list KIND --markdown` prints takes the place of the comment that says so.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from compclip.config import listing

ROOT = Path(__file__).parents[1]
FIRST, HOME = "README.md", "index.md"
LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")  # text, file, heading
TABLE = re.compile(r"^<!-- compclip list (\w+) --markdown -->$", re.M)


def on_files(files: Files, config: Any) -> Files:
    """Add README.md, and each file of the checkout to which a page leads."""
    pending = [_repository_path(file.src_uri) for file in files if file.src_uri.endswith(".md")]
    pending.append(FIRST)
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path in seen or not (ROOT / path).is_file():
            continue  # mkdocs warns of a link that leads nowhere
        seen.add(path)
        if not path.startswith("docs/"):
            files.append(File.generated(config, _site_path(path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            pending += [_resolve(path, target) for _, target, _ in LINK.findall(text)]
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files of the checkout into links between pages; a page is called by its title, not its file.

    The log and the grids' pages are not searched.
    """
    path = _repository_path(page.file.src_uri)
    if path.startswith("experiments/"):
        page.meta["search"] = {"exclude": True}
    folder = posixpath.dirname(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        target = _resolve(path, match[2])
        text = _title(target) if match[1] in (target, posixpath.basename(target)) else match[1]
        return f"[{text}]({posixpath.relpath(_site_path(target), folder or '.')}{match[3] or ''})"

    return TABLE.sub(_make_table, LINK.sub(rewrite, markdown))


def _make_table(match: re.Match[str]) -> str:
    return listing.format_markdown(match[1], listing.list_plugins(listing.PACKAGES[match[1]]))


def _resolve(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _title(path: str) -> str:
    """The first heading of a page; of another file its name."""
    text = (ROOT / path).read_text(encoding="utf-8") if path.endswith(".md") and (ROOT / path).is_file() else ""
    heading = re.search(r"^# (.*)$", text, re.M)
    return heading[1] if heading else posixpath.basename(path)


def _repository_path(site_path: str) -> str:
    """The file of the checkout behind a file of the site."""
    if site_path == HOME:
        return FIRST
    return f"docs/{site_path}" if (ROOT / "docs" / site_path).is_file() else site_path


def _site_path(path: str) -> str:
    return HOME if path == FIRST else path.removeprefix("docs/")
