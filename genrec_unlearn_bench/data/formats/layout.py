"""Which files each format consists of, by role, and how to find them in a folder somebody points to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from genrec_unlearn_bench.errors import DataFault

__all__ = ["FORMATS", "FormatName", "Role", "discover", "role_faults"]

FormatName = Literal["demo", "folder", "amazon-2018", "amazon-2023", "minionerec", "letter"]


@dataclass(frozen=True)
class Role:
    """One file of a format.

    Attributes:
        name: What a dataset's YAML calls it.
        patterns: Glob patterns, best first, relative to the data folder.
        group: Of the roles of one group exactly one must be there; None for a role that may be missing.
    """

    name: str
    patterns: tuple[str, ...]
    group: str | None


def _role(name: str, *patterns: str, group: str | None = "", zipped: bool = True) -> Role:
    both = tuple(form for pattern in patterns for form in ((pattern, f"{pattern}.gz") if zipped else (pattern,)))
    return Role(name, both, name if group == "" else group)


FORMATS: dict[FormatName, tuple[Role, ...]] = {
    "demo": (),
    "folder": (
        _role("items", "items.jsonl"),
        _role("interactions", "interactions.tsv", group="interactions or sequences"),
        _role("sequences", "sequences.tsv", group="interactions or sequences"),
    ),
    "amazon-2018": (
        _role("meta", "meta_*.json"),
        _role("reviews", "[!m]*_5.json", "[!m]*.json"),
    ),
    "amazon-2023": (
        _role("meta", "meta_*.jsonl", "raw/meta_categories/meta_*.jsonl"),
        _role("reviews", "[!m]*.jsonl", "raw/review_categories/*.jsonl", group="reviews or ratings"),
        _role("ratings", "*.csv", "benchmark/5core/rating_only/*.csv", group="reviews or ratings"),
    ),
    "minionerec": (
        _role("train", "train/*.csv", zipped=False),
        _role("valid", "valid/*.csv", zipped=False),
        _role("test", "test/*.csv", zipped=False),
        _role("items", "index/*.item.json", group="items or info", zipped=False),
        _role("info", "info/*.txt", group=None, zipped=False),
        _role("index", "index/*.index.json", group=None, zipped=False),
    ),
    "letter": (
        _role("sequences", "*.inter.json", zipped=False),
        _role("items", "*.item.json", group=None, zipped=False),
        _role("index", "*.index.json", group=None, zipped=False),
    ),
}


def role_faults(format_name: FormatName, roles: list[str]) -> list[str]:
    """What is wrong with a list of roles for a format: unknown, repeated, missing or too many of one group."""
    known = {role.name: role for role in FORMATS[format_name]}
    faults = [
        f"{name!r} is no file of the format {format_name}; known: {', '.join(known)}"
        for name in roles
        if name not in known
    ]
    faults += [f"{name!r} stands there twice" for name in sorted(set(roles)) if roles.count(name) > 1]
    for group in dict.fromkeys(role.group for role in known.values() if role.group):
        members = [name for name, role in known.items() if role.group == group]
        there = sorted(set(members) & set(roles))
        if not there:
            faults.append(f"the format {format_name} needs a file {' or '.join(map(repr, members))}")
        elif len(there) > 1:
            faults.append(f"the format {format_name} takes one of {' and '.join(map(repr, there))}, not both")
    return faults


def discover(format_name: FormatName, folder: Path) -> dict[str, str]:
    """Role -> path relative to ``folder``, by the usual names of the format.

    Raises:
        DataFault: a needed file is missing, or several files could be meant.
    """
    found: dict[str, str] = {}
    faults: list[str] = []
    for role in FORMATS[format_name]:
        for pattern in role.patterns:
            matches = sorted(str(path.relative_to(folder)) for path in folder.glob(pattern) if path.is_file())
            if len(matches) > 1:
                faults.append(f"{role.name}: several files could be meant: {', '.join(matches[:5])}")
            if matches:
                found[role.name] = matches[0]
                break
    faults += role_faults(format_name, list(found))
    if faults:
        expected = ", ".join(role.patterns[0] for role in FORMATS[format_name])
        listing = "".join(f"\n  - {fault}" for fault in faults)
        raise DataFault(
            f"no dataset in the format {format_name} here:{listing}",
            where=str(folder),
            hint=f"the format consists of {expected}; other formats: {', '.join(get_args(FormatName)[1:])}",
        )
    return found
