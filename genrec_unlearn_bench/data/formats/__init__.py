"""Formats of datasets: the files that each consists of. How they are read says ``reader``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from genrec_unlearn_bench.errors import DataFault

FormatName = Literal["demo", "folder", "table", "recbole", "amazon-2018", "minionerec", "letter"]


class Role(NamedTuple):
    """One file of a format, as a dataset's YAML calls it."""

    name: str
    patterns: tuple[str, ...]
    """Globs relative to the data folder, best first."""
    group: str | None
    """Of the roles of one group exactly one must be there; None for a role that may be missing."""


TABLES = ("csv", "tsv", "parquet", "jsonl", "arrow")
"""Endings of tables, each of which may have ``.gz`` behind it."""


def _role(name: str, *patterns: str, group: str | None = "") -> Role:
    both = tuple(form for pattern in patterns for form in (pattern, f"{pattern}.gz"))
    return Role(name, both, name if group == "" else group)


FORMATS: dict[FormatName, tuple[Role, ...]] = {
    "demo": (),
    "folder": (
        _role("items", "items.jsonl"),
        _role("interactions", "interactions.tsv", group="interactions or sequences"),
        _role("sequences", "sequences.tsv", group="interactions or sequences"),
    ),
    "amazon-2018": (_role("meta", "meta_*.json"), _role("reviews", "[!m]*_5.json", "[!m]*.json")),
    "table": tuple(
        _role(name, *(f"{name}.{ending}" for ending in TABLES), group=group)
        for group, names in (("interactions or train", ("interactions", "train")), (None, ("items", "valid", "test")))
        for name in names
    ),
    "recbole": (
        # Before ``*.inter``, which means these files as well.
        _role("train", "*.train.inter", group="interactions or train"),
        _role("valid", "*.valid.inter", group=None),
        _role("test", "*.test.inter", group=None),
        _role("interactions", "*.inter", group="interactions or train"),
        _role("items", "*.item", group=None),
    ),
    "minionerec": (
        *(_role(name, f"{name}/*.csv") for name in ("train", "valid", "test")),
        _role("items", "index/*.item.json"),
        _role("index", "index/*.index.json", group=None),
    ),
    "letter": (
        _role("sequences", "*.inter.json"),
        _role("items", "*.item.json", group=None),
        _role("index", "*.index.json", group=None),
    ),
}


def role_faults(format_name: FormatName, roles: list[str]) -> list[str]:
    """List the faults of a set of roles: unknown, repeated, missing or too many of one group."""
    known = {role.name: role for role in FORMATS[format_name]}
    unknown = f"is no file of the format {format_name}; known: {', '.join(known)}"
    faults = [f"{name!r} {unknown}" for name in roles if name not in known]
    faults += [f"{name!r} is listed twice" for name in sorted(set(roles)) if roles.count(name) > 1]
    for group in dict.fromkeys(role.group for role in known.values() if role.group):
        members = [name for name, role in known.items() if role.group == group]
        there = sorted(set(members) & set(roles))
        if not there:
            faults.append(f"the format {format_name} needs a file {' or '.join(map(repr, members))}")
        elif len(there) > 1:
            faults.append(f"the format {format_name} takes one of {' and '.join(map(repr, there))}, not both")
    return faults


def discover(format_name: FormatName, folder: Path) -> dict[str, str]:
    """Find a format's files by their usual names: role -> path relative to ``folder``.

    Raises DataFault where a needed file is missing, or several files could be meant.
    """
    found: dict[str, str] = {}
    faults: list[str] = []
    for role in FORMATS[format_name]:
        for pattern in role.patterns:
            there = (str(path.relative_to(folder)) for path in folder.glob(pattern) if path.is_file())
            matches = sorted(set(there) - set(found.values()))
            if len(matches) > 1:
                faults.append(f"{role.name}: several files could be meant: {', '.join(matches[:5])}")
            if matches:
                found[role.name] = matches[0]
                break
    faults += role_faults(format_name, list(found))
    if faults:
        expected = ", ".join(role.patterns[0] for role in FORMATS[format_name])
        listing = "".join(f"\n  - {fault}" for fault in faults)
        others = ", ".join(sorted({*FORMATS} - {format_name, "demo"}))
        raise DataFault(
            f"no dataset in the format {format_name} here:{listing}",
            where=str(folder),
            hint=f"the format consists of {expected}; other formats: {others}",
        )
    return found
