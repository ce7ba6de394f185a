"""Display names of tables in papers; an id without one stays, brackets stay."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.reporting.wording import backbone_title, row_title, task_title


@pytest.mark.parametrize(
    ("label", "title"),
    [
        ("npo", "NPO"),
        ("npo (lr=2)", "NPO (lr=2)"),
        ("tracer-no-mask", "TRACER, bounded, no mask"),
        ("flat+", "FLAT+"),
        ("npo-plus", "npo-plus"),
        ("mine", "mine"),
    ],
)
def test_rows(label: str, title: str) -> None:
    assert row_title(label) == title


def test_tasks_and_backbones() -> None:
    assert task_title("sports-2014-item") == "Sports 2014, item"
    assert task_title("industrial-brand (suite full)") == "Industrial, brand (suite full)"
    assert task_title("my-brand") == "my-brand"
    assert backbone_title("tiger (from scratch)") == "TIGER (from scratch)"
    assert backbone_title("gru") == "gru"


def test_everything_that_ships_has_a_title() -> None:
    assert [name for name in tasks() if task_title(name) == name] == []
    shipped = [name for name, entry in methods().items() if entry.origin in ("runner", "package")]
    assert [name for name in shipped if row_title(name) == name] == []
