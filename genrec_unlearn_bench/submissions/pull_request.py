"""The text of a submission's pull request: what, who, which numbers, what differs from the paper, what was checked."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib import resources

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.submissions.spec import STATEMENTS, Submission
from genrec_unlearn_bench.submissions.verification import Verification

__all__ = ["pull_request"]

BEAM = 10
_COLUMNS = (
    ("forget HR@10", "hr@10", Group.FORGET),
    ("forget NDCG@10", "ndcg@10", Group.FORGET),
    ("retain HR@10", "hr@10", Group.RETAIN),
    ("retain NDCG@10", "ndcg@10", Group.RETAIN),
    ("forget HR@10 - retrain", "gap.hr@10", Group.FORGET),
    ("seconds", "cost.unlearn-seconds", Group.ALL),
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$])")
_MENTION = "@\u200b"
"""An @ that calls nobody: where pull requests are shown, a backslash does not keep it from that."""


def pull_request(spec: Submission, records: Sequence[RunRecord], verification: Verification) -> str:
    """Markdown. What the authors wrote is escaped, so that it shows as they wrote it and does nothing."""
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - Markdown, escaped by the filter ``plain``
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"plain": plain, "quoted": quoted}
    place = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "submission" / "pull_request.md"
    return environment.from_string(place.read_text(encoding="utf-8")).render(
        spec=spec,
        authors=[f"{one.name}, {one.affiliation}" if one.affiliation else one.name for one in spec.authors],
        beam=BEAM,
        heads=["task", "backbone", "scale", "ruleset", "method", "seeds", *(head for head, _, _ in _COLUMNS)],
        rows=list(_rows(records)),
        verification=verification,
        statements=list(STATEMENTS.values()),
    )


def plain(text: str) -> str:
    """A text as one line of Markdown that shows just that text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", _MENTION)


def quoted(text: str) -> str:
    """A text as code, to be copied as it is."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def _rows(records: Sequence[RunRecord]) -> Iterator[list[str]]:
    """Cells of the table of results, escaped: a row for each task, backbone, scale, ruleset and method."""
    cells: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        cell = record.cell
        cells[cell.task, record.backbone_label or cell.backbone, cell.scale, cell.ruleset, cell.method].append(record)
    for key, group in sorted(cells.items()):
        diverged = sum(record.diverged for record in group)
        seeds = f"{len(group)}" + (f", {diverged} diverged" if diverged else "")
        yield [*map(plain, key), seeds, *(_spread(group, metric, side) for _, metric, side in _COLUMNS)]


def _spread(records: Sequence[RunRecord], metric: str, group: Group) -> str:
    values = [
        value.value
        for record in records
        for value in record.metrics
        if value.metric == metric and value.group is group and value.beam in (None, BEAM) and value.value is not None
    ]
    if not values:
        return "–"
    mean = statistics.fmean(values)
    digits = 1 if metric.startswith("cost.") else 4
    return f"{mean:.{digits}f}" + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")
