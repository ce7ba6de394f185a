"""The options of ``bench submit``: the words of a submission, and what of its results goes along."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "AffirmRules",
    "Authors",
    "Code",
    "Contact",
    "Deviations",
    "Leaderboard",
    "Licence",
    "MethodName",
    "Name",
    "Out",
    "PaperText",
    "PrText",
    "Rulesets",
    "Tasks",
    "Title",
    "Withhold",
]

Name = Annotated[str, typer.Argument(help="Name of the submission, and of its folder: letters, digits, hyphens.")]
MethodName = Annotated[
    str | None,
    typer.Option("--method", help="The method's name, or path/to/file.py:Class (default: NAME).", show_default=False),
]
Out = Annotated[Path, typer.Option(help="Where submissions lie.", metavar="DIR")]
Title = Annotated[str | None, typer.Option(help="What tables call the method.", show_default=False)]
Authors = Annotated[
    list[str] | None,
    typer.Option("--author", help='"Name | Affiliation | ORCID", the last two optional; repeat.', show_default=False),
]
Contact = Annotated[str | None, typer.Option(help="Mail address or link.", show_default=False)]
Licence = Annotated[str | None, typer.Option(help="SPDX id, as Apache-2.0.", show_default=False)]
PaperText = Annotated[str | None, typer.Option("--paper", help='"Title | https link".', show_default=False)]
Code = Annotated[str | None, typer.Option(help="https link of the code.", show_default=False)]
Deviations = Annotated[
    list[str] | None, typer.Option("--deviation", help="A difference from the paper; repeat.", show_default=False)
]
Tasks = Annotated[list[str] | None, typer.Option("--task", help="Only these tasks; repeat.", show_default=False)]
Rulesets = Annotated[
    list[str] | None, typer.Option("--ruleset", help="Only these rulesets; repeat.", show_default=False)
]
Withhold = Annotated[str, typer.Option(help="Columns to leave out of the tables: similarity,influence,log-prob.")]
AffirmRules = Annotated[
    bool, typer.Option("--affirm-rules", help="I have read leaderboard/RULES.md, and all of it holds.")
]
PrText = Annotated[
    Path | None, typer.Option(help="Where the pull request's text goes (default: beside the folder).", metavar="FILE")
]
Leaderboard = Annotated[
    Path | None,
    typer.Option(help="The leaderboard's folder to hold it against.", show_default=False, metavar="DIR"),
]
