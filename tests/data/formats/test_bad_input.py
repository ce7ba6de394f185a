"""Malformed tables and YAMLs: each is told with its file and, where there is one, the line; none is half-imported."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.catalogue import TableMapping, load_spec, read_yaml
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.data.tasks import TaskSpec
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress

LOG = "u,i,t\n" + "".join(f"u{row % 6},p{row % 5},{row}\n" for row in range(60))
ITEMS = "id,title,brand\n" + "".join(f"p{row},Thing {row},Acme\n" for row in range(5))
MAPPING = TableMapping.model_validate(
    {"columns": {"interactions": {"user": "u", "item": "i", "time": "t"}, "items": {"id": "id", "title": "title"}}}
)


ODD = [b"", b'"', b",", b"\t", b"\r", b"\n\n", b"\0", b"\xff", b"1e5", b"{", b"\\ud800", b"x" * 5000]


@pytest.fixture(autouse=True, scope="module")
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is imported here is known to no other test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield


def attempt(folder: Path, log: str | bytes, items: str | bytes, ending: str = "csv") -> str:
    """What the import says; "" where it succeeds. Anything but a BenchError is a traceback and fails the test."""
    folder.mkdir(exist_ok=True)
    for name, content in ((f"interactions.{ending}", log), (f"items.{ending}", items)):
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    try:
        import_folder(folder, "bad", Progress(), format_name="table", mapping=MAPPING)
    except BenchError as fault:
        assert not (folder / "dataset.yaml").exists(), "half-imported"
        return str(fault)
    assert (folder / "dataset.yaml").is_file()
    return ""


def changed(row: int, text: str, of: str = LOG) -> str:
    lines = of.splitlines(keepends=True)
    return "".join([*lines[: row - 1], text, *lines[row:]])


BY_HAND: dict[str, tuple[str | bytes, str | bytes, str]] = {
    "semicolons": (LOG.replace(",", ";"), ITEMS, "interactions.csv:1"),
    "tabs": (LOG.replace(",", "\t"), ITEMS, "interactions.csv:1"),
    "no bytes": (b"", ITEMS, "interactions.csv"),
    "no items": (LOG, b"", "items.csv"),
    "blank lines alone": ("\n\n\n", ITEMS, "interactions.csv"),
    "a header alone": ("u,i,t\n", ITEMS, "no interaction in the data"),
    "no header": (LOG.partition("\n")[2], ITEMS, "interactions.csv:1"),
    "a column twice": (LOG.replace("u,i,t", "u,i,t,u"), ITEMS, "two columns are called u"),
    "a missing column": (LOG.replace("u,i,t", "u,i,when"), ITEMS, "no column t"),
    "a short row": (changed(8, "u1,p1\n"), ITEMS, "interactions.csv:8: 2 cells, and 3 columns"),
    "a shorter row": (changed(8, "u1\n"), ITEMS, "interactions.csv:8: 1 cells, and 3 columns"),
    "a long row": (changed(8, "u1,p1,5,6\n"), ITEMS, "interactions.csv:8: 4 cells, and 3 columns"),
    "a short item": (LOG, changed(3, "p1,Thing\n", ITEMS), "items.csv:3: 2 cells, and 3 columns"),
    "a carriage return": (LOG, changed(3, "p1,Two\r lines,Acme\n", ITEMS), "items.csv:3: the row cannot be read"),
    "carriage returns alone": (LOG.replace("\n", "\r"), ITEMS, "the row cannot be read"),
    "another kind of time": (changed(8, "u1,p1,2021-01-01\n"), ITEMS, "interactions.csv:8: the timestamp '2021-01-01'"),
    "a day that is no ISO date": (changed(8, "u1,p1,01/02/2021\n"), ITEMS, "nor an ISO 8601 date"),
    "a long first row": (changed(2, "u1,p1,5,6\n"), ITEMS, "interactions.csv:2"),
    "an open quote": (changed(8, 'u1,"p1,5\n'), ITEMS, "interactions.csv"),
    "latin-1": (changed(8, "ü1,p1,5\n").encode("latin-1"), ITEMS, "interactions.csv:8"),
    "latin-1 items": (LOG, changed(3, "p1,Gerät,Acme\n", ITEMS).encode("latin-1"), "items.csv:3"),
    "utf-16": (LOG.encode("utf-16"), ITEMS, "interactions.csv:1"),
    "half a gzip": (gzip.compress(LOG.encode())[:-30], ITEMS, "interactions.csv"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), ITEMS, "interactions.csv:1"),
    "null bytes": (b"\0" * 500, ITEMS, "interactions.csv:1"),
    "no user": (changed(8, ",p1,5\n"), ITEMS, "interactions.csv:8: the user is empty"),
    "a time in words": (changed(8, "u1,p1,noon\n"), ITEMS, "interactions.csv:8: the timestamp 'noon'"),
    "an endless time": (changed(8, f"u1,p1,{'9' * 400}\n"), ITEMS, "interactions.csv:8"),
    "infinity": (changed(8, "u1,p1,inf\n"), ITEMS, "interactions.csv:8"),
    "an item twice": (LOG, ITEMS + "p1,Again,Acme\n", "items.csv:7: item 'p1' is in line 3 already"),
    "no id": (LOG, ITEMS + ",Nameless,Acme\n", "items.csv:7: the item's id is empty"),
    "other items": (LOG, ITEMS.replace("p", "q"), "name items that the catalogue does not have"),
    "one interaction": ("u,i,t\nu1,p1,1\n", ITEMS, "single"),
}


@pytest.mark.parametrize("name", sorted(BY_HAND))
def test_by_hand(tmp_path: Path, name: str) -> None:
    log, items, said = BY_HAND[name]
    assert said in attempt(tmp_path / "shop", log, items)


FINE = {
    "a long title": (LOG, changed(3, f"p1,{'x' * 1_000_000},Acme\n", ITEMS)),
    "ids like numbers": (LOG.replace("p", "00"), ITEMS.replace("p", "00")),
    "blank columns and rows": ("\n" + LOG.replace("\n", ",,\n"), ITEMS + " \n"),
    "blank lines": (LOG.replace("u1,p1,1\n", "u1,p1,1\n\n,,\n"), ITEMS + "\n\n"),
    "quotes and breaks": (LOG, changed(3, 'p1,"A ""big"", red\nthing",Acme\n', ITEMS)),
    "windows": ("﻿" + LOG.replace("\n", "\r\n"), ITEMS),
}


@pytest.mark.parametrize("name", sorted(FINE))
def test_odd_and_right(tmp_path: Path, name: str) -> None:
    assert attempt(tmp_path / "shop", *FINE[name]) == ""


def test_lines_count_breaks_within_cells(tmp_path: Path) -> None:
    items = changed(3, 'p1,"two\nlines",Acme\n', ITEMS) + "p1,Again,Acme\n"
    assert "items.csv:8: item 'p1' is in line 3 already" in attempt(tmp_path / "shop", LOG, items)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", LOG.encode(), b'{"u": "a"', b"[1, 2]\n", b"\xff\xfe{}"])
def test_other_forms(tmp_path: Path, ending: str, content: bytes) -> None:
    # Neither file is right, and either may be read first.
    assert f".{ending}" in attempt(tmp_path / "shop", content, b'{"id": "p1"}\n', ending)
    assert not (tmp_path / "shop" / "dataset.yaml").exists()


YAMLS = {
    "cyclic list": "columns: &a [*a]\n",
    "cyclic mapping": "columns: &a {items: *a}\n",
    "merged text": "columns: {<<: 7}\n",
    "unknown anchor": "columns: *a\n",
    "deep": "columns: " + "[" * 3_000 + "]" * 3_000 + "\n",
    "deep mapping": "{a: " * 2_000 + "1" + "}" * 2_000,
    "not closed": "columns: {items: [\n",
    "tabs": "columns:\n\titems: {}\n",
    "python": "columns: !!python/object/apply:os.system ['true']\n",
    "two documents": "columns: {}\n---\ncolumns: {}\n",
    "list keys": "? [a, b]\n: 1\n",
    "mapping keys": "? {a: b}\n: 1\n",
    "a list": "- a\n",
    "a number": "7\n",
    "nothing": "",
    "zero": "\0",
    "unknown key": "columns: {items: {colour: c}}\n",
    "wrong type": "columns: {items: {title: 7}}\n",
    "no columns": "columns: {items: {title: []}}\n",
    "null": "columns: {items: {title: null}}\n",
    "outside": "files: [{role: items, names: [../../etc/passwd]}]\n",
    "encoding": "files: [{role: items, names: [a.csv], encoding: klingon}]\n",
    "separator": "files: [{role: items, names: [a.csv], sep: ''}]\n",
    "a date": "columns: 2020-13-77\n",
    "bytes": "columns: !!binary 'gg'\n",
    "tag": "columns: !thing {}\n",
}


READERS = (partial(read_yaml, TableMapping), load_spec, partial(read_yaml, TaskSpec))


@pytest.mark.parametrize("read", READERS, ids=["mapping", "dataset", "task"])
@pytest.mark.parametrize("name", sorted(YAMLS))
def test_yaml(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(YAMLS[name])
    with pytest.raises(ConfigError, match=r"mine\.yaml"):
        read(path)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32), st.sampled_from(["log", "items"]), st.sampled_from(["csv", "tsv", "jsonl"]))
def test_mutations_never_end_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, seed: int, where: str, ending: str
) -> None:
    generator = random.Random(seed)
    log, items = LOG, ITEMS
    if ending == "tsv":
        log, items = log.replace(",", "\t"), items.replace(",", "\t")
    if ending == "jsonl":
        log = "".join(f'{{"u": "u{row % 6}", "i": "p{row % 5}", "t": {row}}}\n' for row in range(60))
        items = "".join(f'{{"id": "p{row}", "title": "Thing"}}\n' for row in range(5))
    data = bytearray((log if where == "log" else items).encode())
    for _ in range(generator.randint(1, 6)):
        at, size = generator.randrange(len(data) + 1), generator.randint(1, 12)
        odd = generator.choice(ODD)
        data[at : at + size * generator.randint(0, 1)] = odd
    folder = tmp_path_factory.mktemp("mutated")
    attempt(folder, bytes(data) if where == "log" else log, bytes(data) if where == "items" else items, ending)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("abc:[]{}&*<>-?!|#'\"\n \t1é\0%@`,"), max_size=60))
def test_any_text_as_yaml(text: str) -> None:
    from genrec_unlearn_bench.config import parse_yaml

    for content in (text, f"columns: {text}"):
        said = ""
        try:
            found = parse_yaml(TableMapping, content, where="mine.yaml")
        except ConfigError as fault:
            said = fault.render()
        assert "mine.yaml" in said or isinstance(found, TableMapping)


def test_too_many_faults_are_counted(tmp_path: Path) -> None:
    log = "u,i,t\n" + "u1,p1,noon\n" * 5_000
    said = attempt(tmp_path / "shop", log, ITEMS)
    assert "5000 faults" in said
    assert len(said) < 5_000
    with pytest.raises(DataFault):
        import_folder(tmp_path / "shop", "bad", Progress(), format_name="table", mapping=MAPPING)
