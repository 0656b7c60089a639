"""The heading of a finished report, for those who print it: read from its page, without what makes the page."""

from __future__ import annotations

import html
import re
from pathlib import Path

from compclip.base.files import read_text

PAGE = "index.html"


def read_heading(folder: Path) -> str:
    """Return the heading of the report in a folder as plain text; empty where there is no page."""
    page = folder / PAGE
    match = re.search(r"<h1>(.*?)</h1>", read_text(page)) if page.is_file() else None
    return html.unescape(match[1]) if match else ""
