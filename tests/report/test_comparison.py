"""Rows of the tables: one checkpoint counts once, and a claim has the table's interval."""

import pytest

from compclip.report import claims, table_formats, tables
from compclip.report.tables import Column
from tests.report.made_page import make_run as run

SWAP = Column("b", "swap")


def build_seed_runs(method, right_I, **facts):
    """One checkpoint under three seeds."""
    return [run(method, seed, right_I, **facts) for seed in range(3)]


PRETRAINED = build_seed_runs("pretrained", [1, 0] * 50)


@pytest.mark.parametrize("facts", [{"weights_fingerprint": "w"}, {"run_key": "k"}])
def test_a_checkpoint_under_three_seeds_is_one(facts):
    """A released one and the pretrained model: no deviation, one seed, an interval over the items alone."""
    (group,) = tables.build_tables(
        [*PRETRAINED, *build_seed_runs("released.x", [1] * 60 + [0, 1] * 20, **facts)], [SWAP]
    )
    for row in group.rows:
        (statistic,) = row.statistics.values()
        assert (row.seeds, statistic.seeds, statistic.std) == (1, 1, None)
    assert (statistic.basis, statistic.verdict, statistic.change) == ("items alone", 1, pytest.approx(0.3))
    assert "| released.x | 1 | 80.0 ▲ |" in table_formats.format_markdown_table(group)
    (_, shown_seeds, _) = table_formats.layout_means(group)["rows"][1]
    assert shown_seeds == 1 and "±" not in table_formats.layout_means(group)["rows"][1][2][0].small
    (finding,) = claims.judge_claims(
        [claims.Claim("c", "p", "t", "f", (claims.parse_inequality("released.x > pretrained on b/swap", "here"),))],
        [group], {"b/swap": SWAP},
    )  # fmt: skip
    assert (finding.evidence[0].seeds, finding.evidence[0].std, finding.evidence[0].basis) == (1, None, "items alone")


def test_checkpoints_that_differ_count_each():
    trained = [run("clic", seed, [1] * (60 + seed) + [0] * (40 - seed), run_key=f"k{seed}") for seed in range(3)]
    (group,) = tables.build_tables([*PRETRAINED, *trained], [SWAP])
    (statistic,) = group.rows[1].statistics.values()
    assert (group.rows[1].seeds, statistic.seeds, statistic.basis) == (3, 3, "seeds and items")
    assert statistic.std == pytest.approx(0.01)


def test_the_table_of_differences_and_a_claim_have_one_interval():
    trained = [run("clic", seed, [1] * (70 + 2 * seed) + [0] * (30 - 2 * seed)) for seed in range(3)]
    (group,) = tables.build_tables([*PRETRAINED, *trained], [SWAP])
    (statistic,) = group.rows[1].statistics.values()
    inequality = claims.parse_inequality("clic > pretrained on b/swap", "here")
    runs = {"clic": tables.index_runs(trained), "pretrained": tables.index_runs(PRETRAINED)}
    evidence = claims.judge_inequality(inequality, runs, SWAP)
    assert (statistic.difference, statistic.basis) == (evidence.interval, evidence.basis)
    assert statistic.change == evidence.difference
