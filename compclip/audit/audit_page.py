"""The page of an audit, in the style of the report, and its table for a terminal."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from compclip import report
from compclip.audit import text_edits
from compclip.audit.rule_audit import Audit, RuleAudit

FIELDS = ("coverage", "recognised", "length", "frequency", "bigram", "new words", "still true", "may be true")


def list_shares(rule: RuleAudit) -> list[float | None]:
    """Return the shares of a rule's row, in the order of FIELDS."""
    blind = rule.blind
    shares = (blind.recognised, blind.length, blind.frequency, blind.bigram) if blind else (None,) * 4
    return [rule.coverage, *shares, rule.new_words, rule.still_true, rule.may_be_true]


def format_share(share: float | None) -> str:
    """Format a share in percent."""
    return "–" if share is None else f"{100 * share:.1f}"


def format_table(audit: Audit) -> str:
    """Return a line a rule, shares in percent."""
    names = [f"{rule.method}: {rule.rule} ({rule.role})" for rule in audit.rules]
    width = max(map(len, names))
    lines = [f"{'percent':<{width}}" + "".join(f"{field:>13}" for field in FIELDS)]
    for name, rule in zip(names, audit.rules, strict=True):
        lines.append(f"{name:<{width}}" + "".join(f"{format_share(share):>13}" for share in list_shares(rule)))
    return "\n".join(lines)


def render_page(audit: Audit) -> str:
    """Render the page's HTML, the same bytes for the same audit."""
    folders = [Path(__file__).parent, Path(report.__file__).parent]  # the report's style
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("audit.html.j2").render(
        audit=audit,
        fields=FIELDS,
        list_shares=list_shares,
        format_share=format_share,
        mark_changes=text_edits.mark_changes,
    )
