"""Which files make up a format."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.data.prepare import reader
from genrec_unlearn_bench.data.spec import FORMATS, FormatName, discover, role_faults
from genrec_unlearn_bench.errors import DataFault
from tests.data.formats.files import write


def touch(folder: Path, *names: str) -> None:
    for name in names:
        write(folder / name, "x")


@pytest.mark.parametrize(
    ("format_name", "names", "expected"),
    [
        ("folder", ["items.jsonl.gz", "sequences.tsv"], {"items": "items.jsonl.gz", "sequences": "sequences.tsv"}),
        ("amazon-2018", ["meta_X.json.gz", "X_5.json.gz"], {"meta": "meta_X.json.gz", "reviews": "X_5.json.gz"}),
        ("amazon-2023", ["meta_X.jsonl", "X.csv"], {"meta": "meta_X.jsonl", "ratings": "X.csv"}),
        ("letter", ["B.inter.json"], {"sequences": "B.inter.json"}),
    ],
)
def test_discover(tmp_path: Path, format_name: FormatName, names: list[str], expected: dict[str, str]) -> None:
    touch(tmp_path, *names)
    assert discover(format_name, tmp_path) == expected


def test_missing_ambiguous_and_too_many(tmp_path: Path) -> None:
    with pytest.raises(DataFault, match="needs a file 'items'"):
        discover("folder", tmp_path)
    touch(tmp_path, "items.jsonl", "interactions.tsv", "sequences.tsv", "a.inter.json", "b.inter.json")
    with pytest.raises(DataFault, match="takes one of 'interactions' and 'sequences', not both"):
        discover("folder", tmp_path)
    with pytest.raises(DataFault, match=r"several files could be meant: a.inter.json, b.inter.json"):
        discover("letter", tmp_path)


def test_role_faults() -> None:
    assert role_faults("folder", ["items", "sequences"]) == []
    assert len(role_faults("folder", ["items", "items", "nonsense"])) == 3


def test_every_format_has_a_reader() -> None:
    for name in FORMATS:
        if name != "demo":
            assert callable(reader(name))
