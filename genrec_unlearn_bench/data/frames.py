"""A task on its dataset as data frames, as a ``datasets.DatasetDict``, and as a folder of parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.catalogue import DatasetSpec
from genrec_unlearn_bench.data.dataset import PARTS, Dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.tasks import TaskSpec
from genrec_unlearn_bench.files import atomic_folder

if TYPE_CHECKING:
    import pandas as pd
    from datasets import DatasetDict


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """A task, resolved on its dataset: what the pipeline works with, arrays over row numbers of items, and frames."""

    spec: TaskSpec
    dataset: Dataset
    split: ForgetSplit

    def __repr__(self) -> str:
        concept, items = int(self.split.items.sum()), len(self.dataset.items)
        return f"Task({self.spec.name!r}: {concept} of {items:,} items to be forgotten; .items, .interactions)"

    @cached_property
    def items(self) -> pd.DataFrame:
        """The catalogue: id, title, brand, categories, price, description, text, ``concept`` (is to be forgotten), and
        the dataset's attributes."""
        import pandas as pd

        items = self.dataset.items
        texts = {"id": items.ids, "title": items.titles, "brand": items.brands, "categories": items.categories}
        more = {"price": items.prices, "description": items.descriptions, "text": items.texts}
        return pd.DataFrame({**texts, **more, "concept": self.split.items, **items.attributes})

    @cached_property
    def interactions(self) -> pd.DataFrame:
        """Every interaction that is predicted: user (a number), item (its id), part (train, valid, test), ``forget``.

        A user's first interactions are histories alone. For the kind ``interaction`` the forget side of valid and test
        is taken from train.
        """
        import pandas as pd

        return pd.concat([self._part(part, histories=False) for part in PARTS], ignore_index=True)

    def to_datasets(self) -> DatasetDict:
        """Splits train, valid, test; columns user, item, part, forget and ``history`` (item ids, oldest first)."""
        from datasets import Dataset as Table
        from datasets import DatasetDict

        return DatasetDict({part: Table.from_pandas(self._part(part), preserve_index=False) for part in PARTS})

    def _part(self, part: str, *, histories: bool = True) -> pd.DataFrame:
        import pandas as pd

        groups, ids = getattr(self.split, part), np.array(self.dataset.items.ids, dtype=object)
        sides = ((True, groups.forget), (False, groups.retain))
        frames = [_examples(side, forget, ids, histories=histories).assign(at=side.times) for forget, side in sides]
        rows = pd.concat(frames, ignore_index=True).sort_values(["at", "user"], kind="stable", ignore_index=True)
        named = rows.rename(columns={"target": "item"}).assign(part=part)
        return named[["user", "item", "part", "forget", *(["history"] if histories else [])]]


BATCH = 50_000
"""Examples in memory at a time: histories are long."""


def _examples(side: Examples, forget: bool, ids: NDArray[np.object_], *, histories: bool = True) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame({"user": side.users, "target": ids[side.targets]})
    if histories:
        spans = zip(side.starts, side.ends, strict=True)
        frame["history"] = [ids[side.events[start:end]].tolist() for start, end in spans]
    return frame.assign(forget=forget)


_CARD = """---
configs:
- config_name: examples
  default: true
  data_files:
{parts}
- config_name: items
  data_files: items.parquet
---
# {task} on {title}

Next-item examples of the task `{task}`, version {version}: `user`, `target`, `history` (item ids, oldest first) and
`forget`, whether the example belongs to the forget set. `items` has the catalogue; `concept` marks what is forgotten.

- dataset digest: `{dataset_digest}`
- task digest: `{digest}`
- {concepts}
- terms of the data: {terms}
{citations}"""


def export_task(spec: DatasetSpec, task: Task, folder: Path) -> dict[str, int]:
    """Write ``train``, ``valid``, ``test`` and ``items`` as parquet, and README.md, into a new ``folder``;
    ``datasets.load_dataset`` reads it. Returns rows by file; raises StorageError.
    """
    import pyarrow as pa
    from pyarrow import parquet

    items = task.dataset.items
    rows, ids = {"items": len(items)}, np.array(items.ids, dtype=object)
    strings = pa.list_(pa.string())
    fields = {"user": pa.int64(), "target": pa.string(), "history": strings, "forget": pa.bool_()}
    schema = pa.schema(fields.items())
    with atomic_folder(folder, "--out", replace=True) as draft:
        for name in PARTS:
            groups = getattr(task.split, name)
            rows[name] = len(groups.forget) + len(groups.retain)
            with parquet.ParquetWriter(draft / f"{name}.parquet", schema) as writer:
                for forget, side in ((True, groups.forget), (False, groups.retain)):
                    for start in range(0, len(side), BATCH):
                        part = side.subset(np.arange(len(side))[start : start + BATCH])
                        frame = _examples(part, forget, ids)
                        writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))
        lists, columns = {"categories", *items.attributes}, task.items.items()
        table = {name: pa.array(column.to_numpy(), strings if name in lists else None) for name, column in columns}
        parquet.write_table(pa.table(table), draft / "items.parquet")
        manifest = task.split.manifest
        card = _CARD.format(
            parts="\n".join(f"  - split: {name}\n    path: {name}.parquet" for name in PARTS),
            **{name: getattr(manifest, name) for name in ("task", "version", "dataset_digest", "digest")},
            title=spec.title,
            concepts=f"concepts ({len(manifest.concepts)}): {', '.join(manifest.concepts[:20])}",
            terms=spec.terms or "not stated",
            citations="".join(f"\n```bibtex\n{citation.bibtex}```\n" for citation in spec.citations),
        )
        (draft / "README.md").write_text(card, encoding="utf-8")
    return rows
