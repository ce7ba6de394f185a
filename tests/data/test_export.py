"""An exported task holds what the task holds, and a card that ``datasets`` can read."""

from __future__ import annotations

from pathlib import Path

import yaml
from pyarrow import parquet

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.frames import Task, export_task
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.progress import Progress


def test_the_files_hold_the_task(tmp_path: Path) -> None:
    spec = find_dataset("demo")
    dataset = prepare(spec, None, Progress())
    split = resolve(find_task("demo-brand"), dataset)
    task = Task(find_task("demo-brand"), dataset, split)
    rows = export_task(spec, task, tmp_path / "out")
    ids = dataset.items.ids

    def examples(side: Examples, forget: bool) -> list[dict[str, object]]:
        return [
            {
                "user": int(side.users[row]),
                "target": ids[side.targets[row]],
                "history": [ids[item] for item in side.events[side.starts[row] : side.ends[row]]],
                "forget": forget,
            }
            for row in range(len(side))
        ]

    for part in ("train", "valid", "test"):
        found = parquet.read_table(tmp_path / "out" / f"{part}.parquet").to_pylist()
        groups = getattr(split, part)
        assert found == examples(groups.forget, True) + examples(groups.retain, False)
        assert rows[part] == len(found)
    items = parquet.read_table(tmp_path / "out" / "items.parquet")
    assert items.column("id").to_pylist() == list(ids)
    assert items.column("concept").to_pylist() == split.items.tolist()
    assert items.column("categories").to_pylist() == [list(own) for own in dataset.items.categories]
    text = (tmp_path / "out" / "README.md").read_text()
    header = yaml.safe_load(text.split("---")[1])
    assert [config["config_name"] for config in header["configs"]] == ["examples", "items"]
    assert split.manifest.digest in text
    assert dataset.manifest.digest in text
    # Again over the earlier one.
    assert export_task(spec, task, tmp_path / "out") == rows
