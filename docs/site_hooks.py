"""Hooks of mkdocs: README.md is the first page, and files outside of docs/ that pages link to are copied into the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FIRST, HOME = "README.md", "index.md"
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")


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
            pending += [_resolve(path, target) for target, _ in LINK.findall(text)]
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links between files of the checkout into links between files of the site; the log is not searched."""
    path = _repository_path(page.file.src_uri)
    if path.startswith("experiments/"):
        page.meta["search"] = {"exclude": True}
    folder = posixpath.dirname(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        target = _site_path(_resolve(path, match[1]))
        return f"]({posixpath.relpath(target, folder or '.')}{match[2] or ''})"

    return LINK.sub(rewrite, markdown)


def _resolve(path: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _repository_path(site_path: str) -> str:
    """The file of the checkout behind a file of the site."""
    if site_path == HOME:
        return FIRST
    return f"docs/{site_path}" if (ROOT / "docs" / site_path).is_file() else site_path


def _site_path(path: str) -> str:
    return HOME if path == FIRST else path.removeprefix("docs/")
