"""The page of an audit, in the style of the report, and its table for a terminal."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from compclip import report
from compclip.audit import text_edits
from compclip.audit.rule_audit import Audit, RuleAudit

FIELDS = ("coverage", "recognised", "length", "frequency", "bigram", "new words", "still true", "may be true")
JUDGED = "judged true"


def list_fields(audit: Audit) -> list[str]:
    """Return the columns of an audit; the last is a judge's, where one saw the pictures."""
    return [*FIELDS, *([JUDGED] if audit.judge else [])]


def list_shares(rule: RuleAudit, with_judge: bool = False) -> list[float | None]:
    """Return the shares of a rule's row, in the order of FIELDS, `with_judge` the judge's behind them."""
    blind = rule.blind
    shares = (blind.recognised, blind.length, blind.frequency, blind.bigram) if blind else (None,) * 4
    judged = [rule.judged.at_least if rule.judged else None] if with_judge else []
    return [rule.coverage, *shares, rule.new_words, rule.still_true, rule.may_be_true, *judged]


def format_share(share: float | None) -> str:
    """Format a share in percent."""
    return "–" if share is None else f"{100 * share:.1f}"


def format_table(audit: Audit) -> str:
    """Return a line a rule, shares in percent."""
    names = [f"{rule.method}: {rule.rule} ({rule.role})" for rule in audit.rules]
    width = max(map(len, names))
    lines = [f"{'percent':<{width}}" + "".join(f"{field:>13}" for field in list_fields(audit))]
    for name, rule in zip(names, audit.rules, strict=True):
        shares = list_shares(rule, bool(audit.judge))
        lines.append(f"{name:<{width}}" + "".join(f"{format_share(share):>13}" for share in shares))
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
        fields=list_fields(audit),
        list_shares=list_shares,
        format_share=format_share,
        mark_changes=text_edits.mark_changes,
    )
