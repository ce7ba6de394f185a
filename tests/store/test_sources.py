"""Code digests: comments and docstrings are free, code is not, and imports are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.pipeline import sources
from genrec_unlearn_bench.store.plain_source import source_digest
from genrec_unlearn_bench.store.sources import code_digests

CODE = '''"""A module."""

from __future__ import annotations

LIMIT = 3
"""How many."""


def double(x: int) -> int:
    """Twice x."""
    text = "# not a comment"
    return 2 * x if text else 0
'''

SAME = '''"""Another account of the module,
over two lines."""
from __future__ import annotations
LIMIT = 3
"""How many there are."""
def double(x: int) -> int:
    """Two times x."""

    # reasons
    text = "# not a comment"  # more reasons
    return 2 * x if text else 0
'''


def test_choices_know_a_file_by_its_text_without_comments() -> None:
    assert source_digest(CODE) == source_digest(SAME)
    for old, new in [
        ("LIMIT = 3", "LIMIT = 4"),
        ("2 * x", "3 * x"),
        ("not a comment", "no comment"),
        ("int:", "float:"),
    ]:
        assert old in CODE
        assert source_digest(CODE.replace(old, new)) != source_digest(CODE)


def test_a_function_that_is_only_a_docstring_survives() -> None:
    assert source_digest('def f():\n    """Does nothing."""\n') != source_digest("")


def test_imports_are_followed_down_and_only_inside_the_package() -> None:
    found = code_digests(["genrec_unlearn_bench.unlearning.request"])
    assert "genrec_unlearn_bench.unlearning.request" in found
    assert "genrec_unlearn_bench.features.item_features" in found
    assert "genrec_unlearn_bench.data.examples" in found, "imports of imports"
    assert all(name.startswith("genrec_unlearn_bench.") for name in found)
    assert "genrec_unlearn_bench.store.store" not in found, "nothing above it"
    assert "genrec_unlearn_bench.errors" not in found, "a message changes no number"


def test_digests_come_in_a_fixed_order() -> None:
    roots = ["genrec_unlearn_bench.unlearning.request", "genrec_unlearn_bench.sids.table"]
    assert list(code_digests(roots).items()) == list(code_digests(reversed(roots)).items())


def test_a_module_counts_as_it_was_imported_even_if_it_is_edited_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "planted_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "engine.py").write_text("LIMIT = 1\n")
    own = tmp_path / "mine.py"
    own.write_text("from planted_package.engine import LIMIT\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "PACKAGE", "planted_package")
    first = code_digests([], {"mine": own})
    assert set(first) == {"mine", "planted_package.engine"}
    (package / "engine.py").write_text("LIMIT = 2\n")
    assert code_digests([], {"mine": own}) == first
    own.write_text("from planted_package.engine import LIMIT\n\nLIMIT += 1\n")
    assert code_digests([], {"mine": own}) != first, "a file of one's own is imported anew, so it is read anew"


def test_what_only_type_checkers_import_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "typed_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    for name in ("run", "checked", "starred"):
        (package / f"{name}.py").write_text("__all__ = ['X']\nX = 1\n")
    own = tmp_path / "mine.py"
    own.write_text(
        "from typing import TYPE_CHECKING\nfrom typed_package.run import X\nfrom typed_package.starred import *\n"
        "if TYPE_CHECKING:\n    from typed_package.checked import X as Y\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sources, "PACKAGE", "typed_package")
    found = code_digests([], {"mine": own})
    assert set(found) == {"mine", "typed_package.run", "typed_package.starred", "typed_package.starred.*"}
    assert found["typed_package.starred.*"] != found["typed_package.starred"], "a star takes what __all__ says"
