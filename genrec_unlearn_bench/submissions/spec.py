"""The file ``submission.yaml``, and the statements that its authors affirm (explained in RULES.md)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, model_validator

from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.submissions.plain_text import Refused, odd_text, strict_yaml

STATEMENTS: Mapping[str, str] = {
    "no-test-data": "The method and its tuning used no test interaction, and nothing derived from one.",
    "no-oracle": "No retrained model, nor anything measured on one, went into the method or its tuning.",
    "no-task-identity": "The method does not ask which task, dataset or seed it runs on.",
    "same-architecture": "What is served is the given backbone, with its parameters, tokens or trie changed.",
    "own-results": "Every table was made by `bench run` from the method file submitted here, and not edited.",
    "all-seeds": "All seeds that were run are submitted, failed and diverged ones included.",
    "honest-tuning": "Configurations were chosen on validation alone, at seeds not reported, and all are counted.",
    "public-pretraining": "Nothing was pretrained on the benchmark's datasets outside of the runs submitted here.",
    "may-publish": "The authors may publish the files submitted here under the licences named.",
}
"""Name -> statement. A changed meaning takes a new name."""


SPEC = "submission.yaml"
METHOD_FILE = "method.py"


def _line(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is empty")
    return _refusing(text, odd_text(text))


def _page(text: str) -> str:
    return _refusing(text, odd_text(text, lines=True))


def _title(text: str) -> str:
    """Nothing invisible, and no word of two alphabets, which is how look-alikes are made."""
    for word in text.split():
        scripts = {unicodedata.name(one, "?").partition(" ")[0] for one in word if one.isalpha()} & _ALPHABETS
        if len(scripts) > 1:
            raise ValueError(f"the word {word[:60]!a} mixes the alphabets {' and '.join(sorted(scripts)).title()}")
    hidden = next((one for one in text if unicodedata.category(one) == "Cf"), None)
    return _refusing(_line(text), f"holds the invisible character U+{ord(hidden):04X}" if hidden else None)


def _refusing(text: str, fault: str | None) -> str:
    if fault:
        raise ValueError(f"the text {fault}")
    return text


_ALPHABETS = {"LATIN", "CYRILLIC", "GREEK"}
Line = Annotated[str, Field(max_length=300), AfterValidator(_line)]
"""One line of plain text."""
Title = Annotated[str, Field(max_length=300), AfterValidator(_title)]
"""What tables show: plain text that cannot pass for another text."""
Page = Annotated[str, Field(max_length=8000), AfterValidator(_page)]
"""Plain text with line breaks."""
Url = Annotated[str, Field(max_length=400, pattern=r"^https://[A-Za-z0-9.-]+(/[^\s<>\"'\\`{}]*)?$")]
"""A link that a reader may follow: https alone."""
SLUG = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
Slug = Annotated[str, Field(pattern=SLUG.pattern, max_length=60)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Author(StrictModel):
    name: Line
    affiliation: Line | None = None
    orcid: Annotated[str, Field(pattern=r"^\d{4}-\d{4}-\d{4}-\d{3}[\dX]$")] | None = None


class Paper(StrictModel):
    title: Line
    url: Url | None = None
    arxiv: Annotated[str, Field(pattern=r"^(\d{4}\.\d{4,5}|[a-z-]+/\d{7})(v\d+)?$")] | None = None
    bibtex: Page | None = None
    """For the reader to copy: shown on the page, and in no file of tables."""


class Tuning(StrictModel):
    space: Literal["declared", "none"]
    """Whether the method declares a search space (fields with ``search``) or has nothing to tune."""
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Seeds that were tuned at; none of them is reported."""
    note: Page = ""


class SubmittedMethod(StrictModel):
    """The method: its name, and its file next to submission.yaml, so that any cell can be run again."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+-]*$", max_length=60)]
    """As results call it; variants are those that the file declares."""
    file: Literal["method.py"]


class Submission(StrictModel):
    schema_version: Literal[1] = 1
    protocol_version: int
    name: Slug
    """The submission's folder."""
    title: Title
    authors: Annotated[tuple[Author, ...], Field(min_length=1, max_length=100)]
    contact: Line
    """A mail address or a link at which questions are answered."""
    licence: Annotated[str, Field(pattern=r"^[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*$", max_length=80)]
    """SPDX id of the method's licence."""
    paper: Paper | None = None
    code: Url | None = None
    method: SubmittedMethod
    rulesets: Annotated[tuple[Literal["fixed", "tuned", "default"], ...], Field(min_length=1)]
    tuning: Tuning
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1, max_length=1000)]
    """Training seeds of every cell: 0, 1, 2 … without gaps."""
    deviations: tuple[Page, ...] = ()
    """In what the method or the runs differ from the paper, knowingly."""
    affirmed: tuple[Slug, ...]
    """Statements of RULES.md that the authors affirm; all of them are needed."""
    contents: dict[Annotated[str, Field(max_length=400)], Digest]
    """blake2b-256 of every other file."""

    @model_validator(mode="after")
    def _affirms_every_statement(self) -> Submission:
        missing = [name for name in STATEMENTS if name not in self.affirmed]
        if missing:
            raise ValueError(f"affirmed: these statements of RULES.md are not affirmed: {', '.join(missing)}")
        return self


def parse_submission(content: bytes, where: str = SPEC) -> Submission:
    """Read the file. Raises Refused (not readable) or ConfigError (with every fault at once)."""
    plain = strict_yaml(content, where)
    if not isinstance(plain, dict):
        raise Refused("a mapping is expected", where=where, hint="make the file with `bench submission new`")
    return parse(Submission, {str(key): value for key, value in plain.items()}, where=where)


def submission_text(submission: Submission) -> str:
    """The file's text, in the order of the model; what is empty is left out."""
    content: dict[str, Any] = submission.model_dump(mode="json", exclude_none=True)
    header = "# Made by `bench submission new`, which renews seeds, rulesets and contents and keeps your words.\n"
    return header + yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True)


def read_spec(folder: Path) -> Submission | None:
    """The folder's submission, if it has one. Raises Refused or ConfigError."""
    path = folder / SPEC
    return parse_submission(path.read_bytes(), str(path)) if path.is_file() else None
