"""A dataset's YAML: closed, all faults at once, nothing outside its folder."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from genrec_unlearn_bench.config import parse_yaml
from genrec_unlearn_bench.data.catalogue import DatasetSpec, TextField, check_spec
from genrec_unlearn_bench.data.formats import FormatName, discover, role_faults
from genrec_unlearn_bench.data.items import TEXT_FIELDS
from genrec_unlearn_bench.errors import ConfigError, DataFault
from tests.data.formats.files import write

GOOD = """
name: my-shop
title: My shop
format: folder
split: leave-one-out
files:
  - {role: items, names: [items.jsonl]}
  - {role: sequences, names: [sequences.tsv], url: "https://example.org/s.tsv"}
"""


def spec_of(text: str) -> DatasetSpec:
    spec = parse_yaml(DatasetSpec, text, where="x.yaml")
    check_spec(spec, "x.yaml")
    return spec


def faults(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        spec_of(text)
    assert caught.value.where == "x.yaml"
    return caught.value.what


def test_text_fields_are_those_of_the_item_table() -> None:
    assert get_args(TextField) == TEXT_FIELDS
    assert DatasetSpec.model_fields["text_fields"].default == TEXT_FIELDS


def test_unknown_keys_and_wrong_values_together() -> None:
    what = faults(GOOD.replace("split: leave-one-out", "splitt: x\nsplit: half") + "k_core: -1\n")
    assert "did you mean 'split'" in what
    assert "k_core" in what


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a\\\\b", ""])
def test_files_stay_inside(name: str) -> None:
    assert "does not lie inside" in faults(GOOD.replace("items.jsonl", f'"{name}"'))


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "https://"])
def test_only_http(url: str) -> None:
    assert "url: String should match pattern" in faults(GOOD.replace("https://example.org/s.tsv", url))


@pytest.mark.parametrize("name", ["Shop", "a b", "-a", "a--b", "a/b", ""])
def test_names(name: str) -> None:
    assert "name: use lower-case letters, digits and hyphens only, beginning with a letter or digit (got " in faults(
        GOOD.replace("my-shop", f'"{name}"')
    )


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("leave-one-out", "global-time", "without dates, sequences"),
        ("leave-one-out", "as-given", "as-given goes with rows that come with their split"),
        ("role: items", "role: meta", "'meta' is no file of the format folder"),
        ("role: sequences", "role: items", "is listed twice"),
    ],
)
def test_parts_that_do_not_fit(old: str, new: str, fault: str) -> None:
    assert fault in faults(GOOD.replace(old, new, 1))


@pytest.mark.parametrize("text", ["- a\n", "", "a: [", "!!python/object/apply:os.system ['true']"])
def test_no_mapping(text: str) -> None:
    assert faults(text)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        write(folder / name, "x")


@pytest.mark.parametrize(
    ("format_name", "names", "expected"),
    [
        ("folder", ["items.jsonl.gz", "sequences.tsv"], {"items": "items.jsonl.gz", "sequences": "sequences.tsv"}),
        ("amazon-2018", ["meta_X.json.gz", "X_5.json.gz"], {"meta": "meta_X.json.gz", "reviews": "X_5.json.gz"}),
        (
            "table",
            ["items.jsonl.gz", "interactions.csv"],
            {"interactions": "interactions.csv", "items": "items.jsonl.gz"},
        ),
        ("recbole", ["x.inter", "x.item", "x.user"], {"interactions": "x.inter", "items": "x.item"}),
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
