"""The registry: finds methods without importing them, and refuses what is ambiguous or broken."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from genrec_unlearn_bench import registry
from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.registry import (
    REFERENCE_ROWS,
    Entry,
    find_method,
    frame_in_file,
    load_class,
    methods,
    source_digest,
)

METHOD = '''"""Forgets by doing nothing. More about it."""

from typing import ClassVar
import tests_must_not_import_this


class Config:
    name = "not me"


class {cls}(UnlearningMethod):
    """Forgets by doing nothing.

    And more.
    """

    name: ClassVar[str] = "{name}"
    requires: ClassVar[frozenset[Capability]] = frozenset({{Capability.HAS_CODEBOOKS}})


class _Hidden:
    name = "hidden"
'''


class Base:
    """Stands in for UnlearningMethod."""

    name: ClassVar[str]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of methods of its own, in place of the shipped one."""
    folder = tmp_path / "planted_methods"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "planted_methods", raising=False)
    monkeypatch.setattr(registry, "METHOD_PACKAGE", "planted_methods")
    return folder


def plant(folder: Path, file: str, *, name: str, cls: str = "Nothing") -> Path:
    path = folder / file
    text = METHOD.replace('class Config:\n    name = "not me"\n\n\n', "")
    path.write_text(text.format(cls=cls, name=name))
    return path


def test_a_method_is_read_without_being_imported(package: Path) -> None:
    path = plant(package, "do_nothing.py", name="do-nothing")
    entry = find_method("do-nothing")
    assert entry == Entry(
        "method",
        "do-nothing",
        "Forgets by doing nothing.",
        "planted_methods.do_nothing:Nothing",
        "package",
        ("has_codebooks",),
        path,
    )
    assert "planted_methods.do_nothing" not in sys.modules


def test_reference_rows_stand_among_the_methods(package: Path) -> None:
    rows = {"original", "retrain", "retrain-full", "sasrec", "popularity"}
    assert set(methods()) == set(REFERENCE_ROWS) == rows
    assert find_method("retrain").kind == "reference"
    with pytest.raises(UsageError, match="reference row"):
        load_class(find_method("retrain"), Base)


def test_a_method_may_not_take_a_reference_rows_name(package: Path) -> None:
    plant(package, "retrain.py", name="retrain")
    with pytest.raises(UsageError, match="two methods are named 'retrain'"):
        methods()


def test_two_method_classes_in_a_file_are_ambiguous(package: Path) -> None:
    (package / "nothing.py").write_text(METHOD.format(cls="Nothing", name="nothing"))
    with pytest.raises(UsageError, match="expected one method class, found Config, Nothing"):
        methods()


def test_a_broken_file_is_named_with_its_line(package: Path) -> None:
    (package / "broken.py").write_text("x = 1\nclass (:\n")
    with pytest.raises(UsageError, match=r"\(broken\.py, line 2\)\n.*broken\.py:2"):
        methods()


def test_unknown_names_get_the_nearest(package: Path) -> None:
    plant(package, "do_nothing.py", name="do-nothing")
    with pytest.raises(UnknownName, match="did you mean do-nothing"):
        find_method("do-notin")
    with pytest.raises(UnknownName, match="known: do-nothing, original"):
        find_method("zzz")


def test_a_method_outside_the_tree(package: Path, tmp_path: Path) -> None:
    path = plant(tmp_path, "mine.py", name="mine")
    for text in (f"{path}:Nothing", str(path)):
        assert find_method(text).name == "mine"
        assert find_method(text).origin == "file"
    with pytest.raises(UnknownName, match="did you mean Nothing"):
        find_method(f"{path}:Nothin")
    with pytest.raises(UsageError, match="no method file"):
        find_method(f"{tmp_path}/absent.py:Nothing")


def test_a_file_may_not_take_a_shipped_name(package: Path, tmp_path: Path) -> None:
    plant(package, "do_nothing.py", name="do-nothing")
    path = plant(tmp_path, "copy.py", name="do-nothing")
    with pytest.raises(UsageError, match="two methods are named 'do-nothing'"):
        find_method(f"{path}:Nothing")


def test_loading_imports_the_class_and_checks_its_base(tmp_path: Path, package: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from dataclasses import dataclass\nfrom tests.test_registry import Base\n\n"
        "@dataclass\nclass Point:\n    x: 'int' = 0\n\n"
        "class Mine(Base):\n    name = 'mine'\n\nclass Other:\n    pass\n"
    )
    entry = find_method(f"{path}:Mine")
    source = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n" + LOAD
    done = subprocess.run([sys.executable, "-c", source, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "mine"
    assert "is not a subclass of Base" in done.stdout
    assert source_digest(entry) == hashlib.blake2b(path.read_bytes(), digest_size=32).hexdigest()


LOAD = """
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.registry import find_method, load_class
from tests.test_registry import Base
path = sys.argv[1]
print(load_class(find_method(path + ":Mine"), Base).name)
try:
    load_class(find_method(path + ":Other"), Base)
except UsageError as fault:
    print(fault)
"""


def test_a_file_that_cannot_be_imported_says_why(package: Path, tmp_path: Path) -> None:
    path = plant(tmp_path, "mine.py", name="mine")
    with pytest.raises(UsageError, match="tests_must_not_import_this"):
        load_class(find_method(f"{path}:Nothing"), Base)


def test_digest_follows_the_source(package: Path) -> None:
    path = plant(package, "do_nothing.py", name="do-nothing")
    before = source_digest(find_method("do-nothing"))
    path.write_text(path.read_text() + "# a comment\n")
    assert source_digest(find_method("do-nothing")) != before
    assert source_digest(find_method("original")) != source_digest(find_method("retrain"))


@pytest.mark.parametrize(
    "name", ["../../x", "a/b", "..", ".hidden", "-x", "", "a b", "a\\\\b", "é", "x" * 81, "a\\n", "\\u202ex"]
)
def test_names_that_are_no_file_names_are_refused(package: Path, tmp_path: Path, name: str) -> None:
    path = plant(tmp_path, "mine.py", name=name)
    with pytest.raises(UsageError, match="cannot be the name of a method") as fault:
        find_method(str(path))
    assert fault.value.where == str(path)
    assert "at most 80 characters" in (fault.value.hint or "")
    assert fault.value.render().isascii()


def test_names_of_variants_are_checked_as_well(package: Path) -> None:
    path = plant(package, "nothing.py", name="nothing")
    variants = '    variants: ClassVar[dict] = {"nothing/../../x": {}}\n    requires:'
    path.write_text(path.read_text().replace("    requires:", variants))
    with pytest.raises(UsageError, match="cannot be the name"):
        methods()


@pytest.mark.parametrize("name", ["flat+", "Mine_2.0", "x" * 80, "0"])
def test_allowed_names(package: Path, tmp_path: Path, name: str) -> None:
    assert find_method(str(plant(tmp_path, "mine.py", name=name))).name == name


def test_an_exception_is_located_in_the_methods_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import json\n\ndef unlearn():\n    return inner()\n\ndef inner():\n    json.loads('{')\n")
    code: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), code)
    with pytest.raises(ValueError) as fault:  # noqa: PT011
        code["unlearn"]()  # type: ignore[operator]
    assert frame_in_file(fault.value, path).startswith("mine.py:7 in inner: JSONDecodeError: Expecting property name")
    assert frame_in_file(fault.value, tmp_path / "other.py") == ""
    assert frame_in_file(fault.value, None) == ""


def test_the_shipped_methods_can_be_listed() -> None:
    for name, entry in methods().items():
        assert entry.name == name
        assert entry.summary, f"{name} has no docstring"
        assert entry.source is None or entry.variant_of or entry.source.stem == name.replace("-", "_")


def test_variants_are_methods_of_their_own_name(package: Path) -> None:
    path = plant(package, "nothing.py", name="nothing")
    text = path.read_text().replace(
        "    requires:", '    variants: ClassVar[dict] = {"nothing-much": {"lr": 1.0, "mask": "off"}}\n    requires:'
    )
    path.write_text(text)
    found = methods()["nothing-much"]
    assert found.variant_of == "nothing"
    assert dict(found.fields) == {"lr": 1.0, "mask": "off"}
    assert found.target == methods()["nothing"].target
    assert found.summary == "nothing with lr=1.0, mask=off"
    path.write_text(text.replace("nothing-much", "much"))
    with pytest.raises(UsageError, match="does not begin"):
        methods()
    path.write_text(text.replace('{"nothing-much": {"lr": 1.0, "mask": "off"}}', "dict(nothing_much=1)"))
    with pytest.raises(UsageError, match="plain literal"):
        methods()
