"""The table of ``bench tune``: what every trial forgot, what it kept, what it took, and which one the rule takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from genrec_unlearn_bench.tuning.choice import Choice
    from genrec_unlearn_bench.tuning.selection import Trial

__all__ = ["tune_table"]


def tune_table(choice: Choice) -> RenderableType:
    """The original first, then every trial in the order of trying; ``◀`` marks the choice."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from genrec_unlearn_bench.tuning.selection import is_feasible

    table = Table(
        title=" · ".join((choice.method, choice.task, choice.backbone, choice.scale, _seeds(choice.seeds))),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    varying = [name for name in choice.searched if len({repr(one.config[name]) for one in choice.trials}) > 1]
    table.add_column("trial", no_wrap=True)
    for name in varying:
        table.add_column(name, justify="right")
    for head in ("forget\nHR@10", "retain\nNDCG@10", "of the\noriginal", "seconds", "feasible", ""):
        table.add_column(head, justify="right", no_wrap=True)
    before = choice.original
    numbers = [_number(before.forget_hr), _number(before.retain_ndcg), "1.000", "", "", ""]
    table.add_row("original", *([""] * len(varying)), *numbers, end_section=True)
    for number, trial in enumerate(choice.trials):
        mark = ("◀" if choice.feasible else "◀ nearest") if number == choice.chosen else ""
        feasible = "diverged" if trial.diverged else "yes" if is_feasible(trial, before) else "no"
        table.add_row(
            str(number + 1) if number else "default",
            *(_setting(trial.config[name]) for name in varying),
            _number(trial.forget_hr),
            _number(trial.retain_ndcg),
            _ratio(trial, before),
            f"{trial.seconds:.1f}",
            feasible,
            mark,
            style="bold" if mark else None,
        )
    return Group(table, Text("\n".join(_captions(choice)), style="dim"))


def _captions(choice: Choice) -> list[str]:
    lines = [
        f"validation alone, beam 10 · feasible: retain NDCG@10 at least {choice.floor} of the original's",
        "chosen: lowest forget HR@10 of the feasible",
    ]
    if not choice.searched:
        lines.append(f"{choice.method} lists no values to search: there is nothing to tune, and its default is taken")
    elif choice.space > len(choice.trials):
        lines.append(f"{len(choice.trials)} of {choice.space} configurations were tried: the default and a fixed draw")
    if not choice.feasible:
        lines.append("no trial was feasible: the one that keeps most was taken, and is flagged in every result")
    lines.append(f"all trials: {choice.seconds:.1f} s")
    return lines


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _ratio(trial: Trial, original: Trial) -> str:
    if trial.retain_ndcg is None or not original.retain_ndcg:
        return "–"
    return f"{trial.retain_ndcg / original.retain_ndcg:.3f}"


def _setting(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
