"""Whatever is wrong with a file's bytes is one clear error."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.formats.lines import BrokenLine, Faults, json_document, json_object, read_lines
from genrec_unlearn_bench.errors import DataFault


def test_plain_and_gzip_by_content(tmp_path: Path) -> None:
    text = "\ufeffone\r\n\n  \ntwo"
    (tmp_path / "plain.txt").write_bytes(text.encode())
    (tmp_path / "zipped.txt").write_bytes(gzip.compress(text.encode()))
    for name in ("plain.txt", "zipped.txt"):
        assert list(read_lines(tmp_path / name)) == [(1, "one"), (4, "two")]


def test_not_utf8_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.tsv"
    path.write_bytes("good\ncaf\xe9\n".encode("latin-1"))
    with pytest.raises(DataFault, match="not UTF-8: byte 0xe9") as caught:
        list(read_lines(path))
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize("content", [b"", b"\n  \n", gzip.compress(b"", mtime=0)])
def test_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataFault, match="empty"):
        list(read_lines(tmp_path / "x"))


def test_cut_off_and_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join(str(n * n) for n in range(5000)).encode())
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for data in (whole[:-20], whole[: len(whole) // 2], bytes(damaged)):
        (tmp_path / "x.gz").write_bytes(data)
        with pytest.raises(DataFault, match="damaged or cut-off gzip"):
            list(read_lines(tmp_path / "x.gz"))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataFault, match="cannot be read"):
            list(read_lines(path))


@pytest.mark.parametrize(
    "text", ["{", "[1]", "3", '{"a": ' + "9" * 5000 + "}", "[" * 100_000, '{"a":' * 100_000, "{'a': 1}", ""]
)
def test_broken_objects(text: str) -> None:
    with pytest.raises(BrokenLine):
        json_object(text)


def test_document(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{\n "a": [1,\n 2]\n}')
    assert json_document(tmp_path / "x.json") == {"a": [1, 2]}
    (tmp_path / "y.json").write_text('{"a": [1,\n')
    with pytest.raises(DataFault, match="broken JSON"):
        json_document(tmp_path / "y.json")


def test_faults_show_the_first_twenty(tmp_path: Path) -> None:
    faults = Faults(tmp_path, "mend it")
    faults.check()
    for line in range(1, 31):
        faults.add(tmp_path / "items.jsonl", line, "broken")
    with pytest.raises(DataFault) as caught:
        faults.check()
    assert caught.value.what.startswith("30 faults")
    assert caught.value.what.count("items.jsonl:") == 20
    assert "and 10 more" in caught.value.what
