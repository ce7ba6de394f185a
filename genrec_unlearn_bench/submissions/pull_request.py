"""The text of a submission's pull request: what, who, which numbers, what differs from the paper, what was checked."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

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
    return "\n".join([*_head(spec), *_rows(records), *_deviations(spec), *_checks(verification), *_checklist()]) + "\n"


def plain(text: str) -> str:
    """A text as one line of Markdown that shows just that text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split())).replace("@", _MENTION)


def quoted(text: str) -> str:
    """A text as code, to be copied as it is."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def _head(spec: Submission) -> Iterator[str]:
    yield f"# Submission: {plain(spec.title)}"
    yield ""
    authors = [plain(f"{one.name}, {one.affiliation}" if one.affiliation else one.name) for one in spec.authors]
    yield f"- **method**: `{spec.method.name}`, in `leaderboard/submissions/{spec.name}/`"
    yield f"- **authors**: {'; '.join(authors)}"
    yield f"- **contact**: {quoted(spec.contact)}"
    if spec.paper is not None:
        place = spec.paper.url or (f"arXiv {spec.paper.arxiv}" if spec.paper.arxiv else "no link")
        yield f"- **paper**: {plain(spec.paper.title)} ({plain(place)})"
    if spec.code is not None:
        yield f"- **code**: {plain(spec.code)}"
    yield f"- **licence**: {plain(spec.licence)}"
    yield f"- **protocol**: version {spec.protocol_version}; rulesets {', '.join(spec.rulesets)}"
    yield f"- **seeds**: {', '.join(map(str, spec.seeds))}"
    space = "declared in the method's file" if spec.tuning.space == "declared" else "none"
    yield f"- **search space**: {space}" + (f"; {plain(spec.tuning.note)}" if spec.tuning.note else "")
    yield ""


def _rows(records: Sequence[RunRecord]) -> Iterator[str]:
    yield f"## Results (mean and standard deviation over seeds, beam {BEAM})"
    yield ""
    heads = ["task", "backbone", "scale", "ruleset", "method", "seeds", *(head for head, _, _ in _COLUMNS)]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    cells: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        cell = record.cell
        cells[cell.task, record.backbone_label or cell.backbone, cell.scale, cell.ruleset, cell.method].append(record)
    for key, group in sorted(cells.items()):
        numbers = [_spread(group, metric, side) for _, metric, side in _COLUMNS]
        diverged = sum(record.diverged for record in group)
        seeds = f"{len(group)}" + (f", {diverged} diverged" if diverged else "")
        yield f"| {' | '.join([*(plain(part) for part in key), seeds, *numbers])} |"
    yield ""


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


def _deviations(spec: Submission) -> Iterator[str]:
    yield "## Deviations from the paper"
    yield ""
    yield from (f"- {plain(text)}" for text in spec.deviations or ("none declared",))
    yield ""


def _checks(verification: Verification) -> Iterator[str]:
    yield "## What `bench verify` found"
    yield ""
    yield f"- content `{verification.content_digest}`, {verification.results} results"
    yield f"- {len(verification.rescored)} metrics computed again from the per-user tables; badge so far: " + (
        f"**{verification.badge.value}**"
    )
    if verification.withheld:
        yield f"- withheld columns: {', '.join(verification.withheld)}; what rests on them stays self-reported"
    yield from (f"- {plain(notice)}" for notice in verification.notices)
    yield ""


def _checklist() -> Iterator[str]:
    yield "## Checklist"
    yield ""
    yield "- [ ] `bench verify leaderboard/submissions/<name>` passes on a clean clone, the demo cell included"
    yield "- [ ] only files below `leaderboard/submissions/<name>/` are changed"
    yield "- [ ] `submission.yaml` names the paper, the code and every deviation"
    yield "- [ ] the authors affirm RULES.md:"
    yield from (f"  - [x] {statement}" for statement in STATEMENTS.values())
