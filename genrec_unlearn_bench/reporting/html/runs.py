"""Where every number of a block comes from, as columns: key, date, machine, commit, command.

Commands differ in names and seeds alone, so each is kept as a pattern that the page fills in again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.html.packing import Table, uniform
from genrec_unlearn_bench.reporting.html.payload_model import RunColumns
from genrec_unlearn_bench.reporting.results import Result

__all__ = ["KEY_DIGITS", "Ledger", "pattern_of", "run_columns", "seconds_of"]

KEY_DIGITS = 16
_SLOTS = ("task", "backbone", "method", "seed", "scale")


class Ledger:
    """What many runs share, each once."""

    def __init__(self) -> None:
        self.strings: Table[str] = Table([""])
        self.configs: Table[str] = Table()
        self.environments: Table[str] = Table()

    def environment(self, result: Result) -> int:
        """The number of a run's machine and packages."""
        fields = result.environment.model_dump(mode="json", exclude={"git_commit", "git_dirty"})
        return self.environments.number(json.dumps(fields, sort_keys=True))

    def commit(self, result: Result) -> int:
        """The number of a run's commit."""
        found = result.environment
        return self.strings.number(f"{found.git_commit}{'+' if found.git_dirty else ''}" if found.git_commit else "")

    def parsed(self, table: Table[str]) -> tuple[dict[str, Any], ...]:
        """Canonical JSON as what it says."""
        return tuple(json.loads(text) for text in table.things)


def run_columns(block: Block, ledger: Ledger, *, since: int) -> RunColumns:
    """The runs of a block, row by row, by ascending seed."""
    runs = list(_runs(block))
    strings = ledger.strings
    return RunColumns(
        have="".join("1" if seed in row.results else "0" for row in block.rows for seed in block.seeds),
        key="".join(run.key[:KEY_DIGITS].ljust(KEY_DIGITS) for run in runs),
        created=uniform([seconds_of(run.created) - since for run in runs]),
        environment=uniform([ledger.environment(run) for run in runs]),
        commit=uniform([ledger.commit(run) for run in runs]),
        command=uniform([strings.number(pattern_of(run)) for run in runs]),
        notes=uniform([strings.number("\n".join(run.notes)) for run in runs]),
        suite=uniform([strings.number(run.suite) for run in runs]),
        version=uniform([strings.number(run.suite_version) for run in runs]),
        per_user="".join("1" if run.per_user_digest else "0" for run in runs),
    )


def pattern_of(result: Result) -> str:
    """The command with ``{task}``, ``{seed}`` … for what the cell says; as it is where it has braces of its own."""
    command = result.command
    if "{" in command or "}" in command:
        return command
    words = command.split(" ")
    facts = _facts(result)
    for place, word in enumerate(words[1:], start=1):
        slot = words[place - 1].removeprefix("--")
        if slot in facts and words[place - 1].startswith("--") and word == facts[slot]:
            words[place] = f"{{{slot}}}"
    return " ".join(words)


def seconds_of(created: str) -> int:
    """Seconds since 1970 of a record's time; 0 for what is no time."""
    try:
        found = datetime.fromisoformat(created)
    except ValueError:
        return 0
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


def _facts(result: Result) -> dict[str, str]:
    values = (result.task, result.backbone_label, result.method, str(result.seed), result.scale)
    return dict(zip(_SLOTS, values, strict=True))


def _runs(block: Block) -> Iterator[Result]:
    for row in block.rows:
        for seed in block.seeds:
            if seed in row.results:
                yield row.results[seed]
