"""A stranger's JSON, YAML and words: nothing that reads in two ways, expands without end, or hides."""

from __future__ import annotations

import json

import pytest

from genrec_unlearn_bench.submissions.plain_text import (
    Fault,
    Refused,
    machine_path,
    odd_text,
    plain_json,
    strict_yaml,
    values_of,
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' is there twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": 1', "not plain JSON"),
        ("[" * 30 + "]" * 30, "nested deeper"),
        ("[" * 200_000, "nested too deep"),
        ('{"a": "\\ud800"}', "not plain JSON"),
        # Each would take hours in a reader that looks for a string's end, or for a key's double, again and again.
        ('"' + '\\"' * 1_000_000, "not plain JSON"),
        ("{" + ", ".join(f'"{n}": 1' for n in [*range(200_000), 0]) + "}", "the key '0' is there twice"),
        ("1" * 5000, "not plain JSON"),
    ],
)
def test_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        plain_json(text.encode(), "x")


def test_json_is_read() -> None:
    content = {"a": [1, 2.5, None, {"b": '[[[[{{{\\"' + "[" * 99}]}
    assert plain_json(json.dumps(content).encode(), "x") == content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x 1\nb: *x", "anchors, aliases and tags"),
        ("a: 1\na: 2", "a key is there twice"),
        ("a: {b: 1, b: 2}", "a key is there twice"),
        ("a: !!python/object/apply:os.system [ls]", "anchors, aliases and tags"),
        ("a: " + "[" * 40 + "]" * 40, "nested deeper"),
        ("? [a, b]\n: 1", "no plain word"),
        ("a: [1", "not plain YAML"),
        ("a: 1\n--- \nb: 2", "not plain YAML"),
        ("a: [" + "1, " * 60_000 + "]", "more than 50000 values"),
        ("\x00", "not plain YAML"),
        ('a: "\\ud800"', "not plain YAML"),
    ],
)
def test_yaml_is_refused(text: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        strict_yaml(text.encode(), "x")


def test_yaml_is_read() -> None:
    text = "a: [1, x, {b: 2}]\nc:\n  d: |\n    two\n    lines\n  e: {}\nf: [{g: 1}, {g: 2}]\n"
    assert strict_yaml(text.encode(), "x") == {
        "a": [1, "x", {"b": 2}],
        "c": {"d": "two\nlines\n", "e": {}},
        "f": [{"g": 1}, {"g": 2}],
    }


def test_other_encodings_are_refused() -> None:
    for read in (plain_json, strict_yaml):
        with pytest.raises(Refused, match="not plain"):
            read(b"\xff\xfea", "x")


@pytest.mark.parametrize(
    "text",
    ["a\x07", "a\x1b[31m", "a\u202eb", "a\u200bb", "a\u00adb", "\ufeffa", "\ud800", "x\u2028y", "a\nb", "x" * 20_001],
)
def test_odd_words(text: str) -> None:
    assert odd_text(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "a_b 50% <script> \\input{x}", "Ünïcödé 漢字 😀", "עברית", "می\u200cخواهم", "=cmd()"]
)
def test_words_that_renderers_escape(text: str) -> None:
    assert odd_text(text) is None
    assert odd_text(f"{text}\n\t{text}", lines=True) is None


@pytest.mark.parametrize(
    "text",
    ["/home/ada/x", "see /root", "--data-dir=/data", "~/x", "C:\\me", "D:/me", "\\\\host\\x", "file:///x", "(/a/b)"],
)
def test_paths_of_a_machine(text: str) -> None:
    assert machine_path(text)


@pytest.mark.parametrize(
    "text",
    ["https://a.org/x/y", "time / retraining", "and/or", "a/b/c", "1 / 2", "data/x", "1/rank", "minilm#a0/x", ""],
)
def test_no_paths_of_a_machine(text: str) -> None:
    assert machine_path(text) is None


def test_messages_do_nothing_to_a_terminal() -> None:
    fault = Fault(what="a\x1b[2Jb\u202ec\nd", where="x" * 5000, hint="ä \ud800")
    assert fault.what == "a\\x1b[2Jb\\u202ec\\nd"
    assert len(fault.where) < 1100
    assert fault.text().encode()
    refused = Refused("a\x07", where="w", hint="m")
    assert str(refused).startswith("a\\x07")
    assert refused.fault.what == "a\\x07"


def test_keys_are_words_too() -> None:
    assert ("a.\x1b", "\x1b") in list(values_of({"a": {"\x1b": 1}}))
