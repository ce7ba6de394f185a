"""Tables as GitHub's markdown: for READMEs, pull requests and notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import Mark
from genrec_unlearn_bench.reporting.reported import ReportedComparison, reported_notes
from genrec_unlearn_bench.reporting.sentences import notes
from genrec_unlearn_bench.reporting.tables import Line, Shown, Table, show
from genrec_unlearn_bench.reporting.wording import markdown_text


def render_markdown(
    tables: Sequence[Table],
    *,
    across: Sequence[Across] = (),
    reported: Sequence[ReportedComparison] | None = None,
    figures: bool = False,
) -> str:
    """Every table with what has to be said below it; ends with one line break.

    Args:
        reported: Published numbers beside ours; None leaves that part out.
        figures: Link the diagrams by their names (``<name>.svg``), which lie beside the text.
    """
    parts = [part for table in tables for part in _table(table)]
    if across:
        parts.append("## Across blocks")
        parts += [part for each in across if each.found is not None for part in _across(each, figures=figures)]
        untested = [each.sentence for each in across if each.found is None]
        parts += [_list(untested)] if untested else []
    if reported is not None:
        rows = [[markdown_text(part) for part in (pair.block, *pair.texts)] for pair in reported]
        table = [_grid(["block", "method", "measure", "reported", "ours"], rows, left=3)] if rows else []
        parts += ["## Reported beside ours", *table, _list(reported_notes(reported))]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> Iterable[str]:
    yield f"## {markdown_text(table.title)}"
    yield f"{markdown_text(table.layout.caption)} (`{table.name}`)"
    several = len(table.tasks) > 1
    for section in table.sections:
        where = f"{', '.join(table.tasks)} on {section.title}"
        yield f"### {markdown_text(where)}"
        parts = [(column.top if several else "", column.head, column.full_title) for column in table.columns]
        heads = ["", *(markdown_text(" ".join(filter(None, each))) for each in parts)]
        rows = [[_label(line), *(_cell(show(entry)) for entry in line.entries)] for line in section.lines]
        yield _grid(heads, rows)
    yield _list(notes(table))


def _label(line: Line) -> str:
    label = markdown_text(line.name)
    return f"{label} (ref.)" if line.kind == "reference" else label


def _cell(shown: Shown) -> str:
    number = {Mark.BEST: f"**{shown.number}**", Mark.SECOND: f"_{shown.number}_"}.get(shown.mark, shown.number)
    return " ".join(part for part in (number, shown.tail) if part)


def _across(each: Across, *, figures: bool) -> Iterable[str]:
    yield f"### {markdown_text(f'{each.measure.title}, scale {each.scale}, ruleset {each.ruleset}')}"
    yield markdown_text(each.sentence)
    rows = [[markdown_text(p.label), f"{p.mean_rank:.2f}", p.letters] for p in each.standings]
    yield _grid(["method", "mean rank", "group"], rows)
    if figures:
        yield f"![Critical-difference diagram: methods joined by a bar are not separable](<{each.name}.svg>)"
    if each.notes:
        yield _list(each.notes)


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """A table; the first ``left`` columns are text, the others numbers, which stand right."""
    rule = ["---" if place < left else "---:" for place in range(len(heads))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows))


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {markdown_text(sentence)}" for sentence in sentences)
