"""The rules as they are written, as they are affirmed and as they are checked say the same."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Level
from genrec_unlearn_bench.evaluation.per_user import COLUMNS
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.publish import FAMILIES, rests_on
from genrec_unlearn_bench.submissions.spec import STATEMENTS
from genrec_unlearn_bench.tuning.rule import TRIALS

RULES = Path(__file__).parents[2] / "leaderboard" / "RULES.md"


def test_every_statement_has_its_paragraph() -> None:
    text = RULES.read_text(encoding="utf-8")
    for name in STATEMENTS:
        assert text.count(f"(`{name}`)") == 1, name
    for badge in Badge:
        assert f"| {badge.value} |" in text


def test_the_rules_name_the_tuners_limit() -> None:
    assert f"at most {TRIALS} configurations" in RULES.read_text(encoding="utf-8")


def test_families_name_columns_and_metrics() -> None:
    assert all(column in COLUMNS for columns in FAMILIES.values() for column in columns)
    resting = {name: rests_on(name) for name, spec in metric_specs().items() if spec.level is Level.USER}
    assert {family for family in resting.values() if family} == {"similarity", "influence"}
    # The badge needs these, so nothing may withhold what they are computed from.
    for name in ("hr@10", "ndcg@10", "mrr@10", "concept-rate@10", "original-sids.hr@10", "collateral.prefix.hr@10"):
        assert resting[name] is None
