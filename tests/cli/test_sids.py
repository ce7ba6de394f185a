from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app


def test_the_health_of_the_demo(tmp_path: Path) -> None:
    call = ["data", "sids", "--task", "demo-brand", "--threads", "1", "--cache-dir", str(tmp_path)]
    table = CliRunner().invoke(app, call)
    assert table.exit_code == 0, table.output
    assert "Semantic IDs of demo-brand: 400 items" in table.stdout
    report = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert report["collisions"]["excess"] == 0, "the ordinal level tells all items apart"
    assert [level["size"] for level in report["levels"][:3]] == [32, 32, 32]
    shared = [prefix["concept_shared"] for prefix in report["prefixes"]]
    assert shared == sorted(shared, reverse=True)
    assert shared[0] > 0.5
