"""``bench submission site``: the same results make the same bytes, and whatever differs is found and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from tests.reporting.boards import make_records, write_records

pytestmark = pytest.mark.slow

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A leaderboard's folder with its site."""
    root = tmp_path_factory.mktemp("leaderboard")
    write_records(make_records(), root / "results")
    done = RUNNER.invoke(app, ["submission", "site", "--leaderboard", str(root)])
    assert done.exit_code == 0, done.output
    return root


def checked(root: Path, place: Path | None = None) -> tuple[int, str]:
    words = ["submission", "site", "--leaderboard", str(root), "--check"]
    done = RUNNER.invoke(app, [*words, "--out", str(place)] if place else words)
    return done.exit_code, done.output


def test_has_the_page_and_every_layout_that_the_results_fill(published: Path) -> None:
    names = {path.relative_to(published / "site").as_posix() for path in (published / "site").rglob("*.*")}
    assert {"index.html", "tables/main.md", "tables/main.tex", "tables/main.bib", "tables/full.md"} <= names
    assert "tables/item.md" not in names


def test_a_folder_that_holds_no_site_is_not_replaced(published: Path, tmp_path: Path) -> None:
    (tmp_path / "main.tex").write_text("mine", encoding="utf-8")
    words = ["submission", "site", "--leaderboard", str(published), "--out"]
    done = RUNNER.invoke(app, [*words, str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path} holds no site" in done.output
    assert (tmp_path / "main.tex").read_text(encoding="utf-8") == "mine"
    for _ in range(2):
        assert RUNNER.invoke(app, [*words, str(tmp_path / "new")]).exit_code == 0


def test_is_the_same_when_made_again(published: Path) -> None:
    code, output = checked(published)
    assert code == 0
    assert "as " in output


def test_an_edited_number_is_found(published: Path, tmp_path: Path) -> None:
    place = tmp_path / "site"
    shutil.copytree(published / "site", place)
    table = place / "tables" / "main.md"
    text = table.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "tracer" in line and "0." in line)
    table.write_text(text.replace(row, row.replace("0.", "9.", 1)), encoding="utf-8")
    (place / "tables" / "full.md").unlink()
    (place / "tables" / "mine.md").write_text("mine", encoding="utf-8")
    code, output = checked(published, place)
    assert code == 1
    assert "tables/main.md: differs" in output
    assert "tables/full.md: is missing" in output
    assert "tables/mine.md: is not made any more" in output


def test_a_new_result_makes_another_site(published: Path, tmp_path: Path) -> None:
    root = tmp_path / "leaderboard"
    shutil.copytree(published, root)
    write_records(make_records(seeds=(5,)), root / "results")
    assert checked(root)[0] == 1


def test_a_folder_without_results_is_a_wrong_call(tmp_path: Path) -> None:
    code, output = checked(tmp_path)
    assert code == 2
    assert "--leaderboard" in output
