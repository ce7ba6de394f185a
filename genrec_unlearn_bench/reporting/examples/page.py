"""The page of examples, as ``--json`` prints it, on the terminal, and as one HTML file, which loads nothing.

Users and items are named by their ids only where that was asked for; an item without any text has no other name.
Texts are as the data has them, and escaped where they are shown. On the terminal, concept items have a dagger and the
target a star before their names, and a colour where there is any.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.data.fields import brand_key, plain
from genrec_unlearn_bench.data.forget import ConceptKind, TaskManifest
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.lists import list_change
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns
from genrec_unlearn_bench.reporting.formats.grid import empty_grid, print_sentences
from genrec_unlearn_bench.reporting.html_page import html_environment
from genrec_unlearn_bench.reporting.wording import counted, leaderboard_text, visible

LONGEST = 200
"""Characters of a title that are kept at all; some titles are whole descriptions."""
HISTORY = 5
"""Items before the target that are shown."""
_SEPARATORS = " -–—:,|/·"


def item_name(items: ItemTable, row: int) -> tuple[str, str]:
    """(brand, title), each on one line; one of them may be empty, never both. Renderers escape them.

    Where there is no title, the description, the text or at last the item's id stands in for it.
    """
    brand, title = plain(items.brands[row]), plain(items.titles[row])
    if not title:
        others = (items.descriptions[row], items.texts[row], items.ids[row], f"item {row}")
        title = next(text for text in map(plain, others) if text)
    elif brand and brand_key(title[: len(brand)]) == brand_key(brand) and not title[len(brand) :][:1].isalnum():
        title = title[len(brand) :].lstrip(_SEPARATORS)
    return brand, clipped(title, LONGEST)


def clipped(text: str, width: int) -> str:
    """The text in at most ``width`` characters, with an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip(_SEPARATORS)}…"


CONCEPTS = 6
"""Names of concepts that a heading lists."""
CONCEPT, TARGET = "†", "*"
"""Signs before a concept item and before the item that was to be predicted, beside any colour or weight."""


class Item(StrictModel):
    """One place of a list or a history."""

    brand: str
    title: str
    concept: bool
    """Whether it is to be forgotten."""
    target: bool
    """Whether it is what was to be predicted."""
    id: str | None = None
    """The dataset's own, where ids were asked for."""

    @property
    def name(self) -> str:
        """Brand and title on one line."""
        return ": ".join(part for part in (self.brand, self.title) if part)


class ShownList(StrictModel):
    """The list that one run recommends."""

    label: str
    items: tuple[Item, ...]
    """The first ten, best first; fewer where fewer could be decoded."""
    concept_items: int
    target_rank: int | None
    """In the whole list of ``Page.depth`` places; None where it is not in it."""
    change: float | None
    """1 - overlap@10 with the original's list, in [0, 1]; None for the original itself."""


class Example(StrictModel):
    """One test example."""

    number: int
    """Counted from 1 on the page."""
    group: Group
    user: int | None = None
    """Number of the user in the prepared dataset, and ``row`` of the example in its group, where ids were asked for."""
    row: int | None = None
    history: tuple[Item, ...]
    """The last items before the target, oldest first."""
    history_length: int
    """How many items the whole history has."""
    target: Item
    lists: tuple[ShownList, ...]

    @property
    def heading(self) -> str:
        known = "" if self.user is None else f", user {self.user} (row {self.row})"
        return f"Example {self.number}, {self.group.value} side{known}"

    @property
    def history_heading(self) -> str:
        shown, whole = len(self.history), self.history_length
        items = counted(whole, "item") if shown == whole else f"the last {shown} of {whole} items"
        return f"History, {items}, oldest first" if whole else "no history"


class Page(StrictModel):
    """All that is shown."""

    title: str
    task: str
    backbone: str
    scale: str
    suite: str
    seed: int
    beam: int
    depth: int
    """Places of a whole list; only the first ten are shown."""
    kind: ConceptKind
    concept: str
    """The concept to be forgotten, in words."""
    rule: str
    """How the examples were chosen."""
    examples: tuple[Example, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the page, one sentence each."""
        return (
            f"To be forgotten: {self.concept}.",
            f"Top-{LIST_LENGTH} lists of seed {self.seed} at beam {self.beam} (suite {self.suite}); the target is "
            f"looked for in {self.depth} places.",
            self.rule,
            "Examples show what a change looks like; how often it happens is what the metrics are for.",
        )

    def summary(self, shown: ShownList) -> dict[str, str]:
        """Lines below a list: concept items, the target's place, and the share of places the original does not have."""
        return {
            "to forget": f"{shown.concept_items}/{len(shown.items)}",
            "target at": str(shown.target_rank or f"not in {self.depth}"),
            "changed": "–" if shown.change is None else f"{shown.change:.0%}",
        }


def make_page(task_runs: TaskRuns, chosen: Sequence[tuple[Group, int]], *, beam: int, rule: str, ids: bool) -> Page:
    """The page of test examples, given as group and row; with ``ids``, users and items are named by theirs."""
    record = task_runs.first.record
    return Page(
        **{name: getattr(record.cell, name) for name in ("task", "scale", "suite", "seed")},
        title=f"{task_runs.title} · seed {record.cell.seed}",
        backbone=record.backbone_label or record.cell.backbone,
        beam=beam,
        depth=max(LIST_LENGTH, beam),
        kind=task_runs.manifest.kind,
        concept=_concept(task_runs.manifest),
        rule=rule,
        examples=tuple(
            _example(task_runs, number, group, row, beam=beam, ids=ids)
            for number, (group, row) in enumerate(chosen, start=1)
        ),
    )


def _concept(manifest: TaskManifest) -> str:
    names, items = manifest.concepts, f"{len(manifest.forget_items)} items"
    match manifest.kind:
        case ConceptKind.INTERACTION:
            count = len(manifest.forget_interactions)
            return f"{count} interactions; the marked items are those this user asked to forget"
        case ConceptKind.ITEM:
            return f"{len(manifest.forget_items)} single items"
        case ConceptKind.BRAND | ConceptKind.ATTRIBUTE:
            more = f" and {len(names) - CONCEPTS} more" if len(names) > CONCEPTS else ""
            rule = manifest.attribute
            one, many = (f"value of {rule.field}", f"values of {rule.field}") if rule else ("brand", "brands")
            return f"{counted(len(names), one, many)}, {items}: {', '.join(names[:CONCEPTS])}{more}"
    return f"{', '.join(names)}, {items}"


def _example(task_runs: TaskRuns, number: int, group: Group, row: int, *, beam: int, ids: bool) -> Example:
    one, table = task_runs.example(group, row), task_runs.dataset.items
    user, target = int(one.users[0]), int(one.targets[0])

    def shown(rows: IntArray) -> tuple[Item, ...]:
        out = []
        for item in rows.tolist():
            brand, title = item_name(table, item)
            concept, known = task_runs.is_forgotten(user, item), table.ids[item] if ids else None
            out.append(Item(brand=brand, title=title, concept=concept, target=item == target, id=known))
        return tuple(out)

    lists = list[ShownList]()
    rankings = [_row(run.rankings[group, beam], row) for _, run in task_runs.runs]
    for (label, run), ranking in zip(task_runs.runs, rankings, strict=True):
        places = ranking.items[0, :LIST_LENGTH]
        items = shown(places[places >= 0])
        lists.append(
            ShownList(
                label=label,
                items=items,
                concept_items=sum(item.concept for item in items),
                target_rank=int(run.ranks(group, beam)[row]) or None,
                change=float(list_change(rankings[0], ranking, LIST_LENGTH)[0]) if lists else None,
            )
        )
    length = int(one.ends[0] - one.starts[0])
    return Example(
        number=number,
        group=group,
        user=user if ids else None,
        row=row if ids else None,
        history=shown(one.histories(HISTORY).items[0]) if length else (),
        history_length=length,
        target=shown(one.targets)[0],
        lists=tuple(lists),
    )


def _row(ranking: Ranking, row: int) -> Ranking:
    return Ranking(ranking.items[[row]], ranking.log_probs[[row]])


WIDTH = 90
"""Characters of a title on the page of HTML."""
NARROWEST, HEADS = 24, 10
"""Columns of the screen that a list needs, below which lists stand in several tables; and those of the row heads."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    environment = html_environment()
    environment.filters["visible"] = visible
    made = environment.from_string(leaderboard_text("templates", "examples", "page.html.j2"))
    style = leaderboard_text("templates", "examples", "style.css")
    return made.render(page=page, concept=CONCEPT, target=TARGET, clipped=clipped, width=WIDTH, style=style)


def draw(console: Console, page: Page) -> None:
    """Print the page."""
    console.print(Text(visible(page.title), style="bold"))
    print_sentences(console, (*page.notes, f"{CONCEPT} to be forgotten, {TARGET} the target"))
    most = max(1, (console.width - HEADS) // NARROWEST)
    for example in page.examples:
        console.print(Text(f"\n{visible(example.heading)}", style="bold"))
        console.print(Text(f"  {example.history_heading}"))
        for head, item in (*(("    ", item) for item in example.history), ("  Target: ", example.target)):
            console.print(Text(head) + _name(item, console.width - len(head)), no_wrap=True)
        for start in range(0, len(example.lists), most):
            console.print(_grid(page, example.lists[start : start + most], console.width))


def _grid(page: Page, lists: Sequence[ShownList], width: int) -> Table:
    room = (width - HEADS) // len(lists) - 2
    grid = empty_grid()
    grid.add_column("", no_wrap=True)
    for shown in lists:
        grid.add_column(Text(visible(shown.label)), width=room)
    for place in range(LIST_LENGTH):
        items = [shown.items[place] if place < len(shown.items) else None for shown in lists]
        # Two lines of a name, about.
        grid.add_row(Text(f"{place + 1:>3}"), *(_name(item, 2 * room - 4) if item else Text("–") for item in items))
    grid.add_section()
    summaries = [page.summary(shown) for shown in lists]
    for head in summaries[0]:
        grid.add_row(Text(head), *(Text(one[head]) for one in summaries))
    return grid


def _name(item: Item, room: int) -> Text:
    """Signs and a name in about as many columns as there are."""
    signs = CONCEPT * item.concept + TARGET * item.target
    text = clipped(visible(item.name if item.id is None else f"{item.id} {item.name}"), room - 3)
    return Text(f"{signs} {text}".strip(), style="bold red" if item.concept else "bold green" if item.target else "")
