"""A task on its dataset as data frames, as a ``datasets.DatasetDict``, and as a folder of parquet files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.data.catalogue import DatasetSpec
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.tasks import TaskSpec
from genrec_unlearn_bench.files import atomic_folder

if TYPE_CHECKING:
    import pandas as pd
    from datasets import DatasetDict


@dataclass(frozen=True, eq=False)
class Task:
    """A task, resolved on its dataset.

    Attributes:
        spec: The task as it is asked for.
        dataset, split: What the pipeline works with: arrays over row numbers of items.
    """

    spec: TaskSpec
    dataset: Dataset
    split: ForgetSplit

    @cached_property
    def items(self) -> pd.DataFrame:
        """The catalogue: id, title, brand, categories, price, description, text; ``concept``: is to be forgotten."""
        import pandas as pd

        items = self.dataset.items
        return pd.DataFrame(
            {
                "id": items.ids,
                "title": items.titles,
                "brand": items.brands,
                "categories": items.categories,
                "price": items.prices,
                "description": items.descriptions,
                "text": items.texts,
                "concept": self.split.items,
            }
        )

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

        ids = np.array(self.dataset.items.ids, dtype=object)
        groups, found = getattr(self.split, part), []
        for forget, side in ((True, groups.forget), (False, groups.retain)):
            frame = pd.DataFrame({"user": side.users, "item": ids[side.targets], "part": part, "forget": forget})
            if histories:
                spans = zip(side.starts, side.ends, strict=True)
                frame["history"] = [ids[side.events[start:end]].tolist() for start, end in spans]
            found.append(frame.assign(at=side.times))
        rows = pd.concat(found, ignore_index=True).sort_values(["at", "user"], kind="stable", ignore_index=True)
        return rows.drop(columns="at")


PARTS = ("train", "valid", "test")
BATCH = 50_000
"""Examples in memory at a time: histories are long."""

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


def export_task(spec: DatasetSpec, dataset: Dataset, split: ForgetSplit, folder: Path) -> dict[str, int]:
    """Write ``train``, ``valid``, ``test`` and ``items`` as parquet, and README.md, into a new ``folder``;
    ``datasets.load_dataset`` reads it. Returns rows by file; raises StorageError.
    """
    rows = {"items": len(dataset.items)}
    with atomic_folder(folder, "--out", replace=True) as draft:
        for name in PARTS:
            groups = getattr(split, name)
            rows[name] = _write_examples(draft / f"{name}.parquet", (groups.forget, groups.retain), dataset.items.ids)
        _write_items(draft / "items.parquet", dataset, split)
        manifest = split.manifest
        card = _CARD.format(
            parts="\n".join(f"  - split: {name}\n    path: {name}.parquet" for name in PARTS),
            **{name: getattr(manifest, name) for name in ("task", "version", "dataset_digest", "digest")},
            title=spec.title,
            concepts=f"{len(manifest.concepts)} concepts: {', '.join(manifest.concepts[:20])}",
            terms=spec.terms or "not stated",
            citations="".join(f"\n```bibtex\n{citation.bibtex}```\n" for citation in spec.citations),
        )
        (draft / "README.md").write_text(card, encoding="utf-8")
    return rows


def _write_examples(path: Path, sides: tuple[Examples, Examples], ids: tuple[str, ...]) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    names = pa.array(ids)
    fields = {"user": pa.int64(), "target": pa.string(), "history": pa.list_(pa.string()), "forget": pa.bool_()}
    schema = pa.schema(fields.items())
    with parquet.ParquetWriter(path, schema) as writer:
        for forget, side in zip((True, False), sides, strict=True):
            for start in range(0, len(side), BATCH):
                part = side.subset(np.arange(len(side))[start : start + BATCH])
                lengths = part.ends - part.starts
                offsets = np.concatenate([[0], np.cumsum(lengths)])
                places = np.repeat(part.starts - offsets[:-1], lengths) + np.arange(offsets[-1])
                columns = [
                    pa.array(part.users),
                    names.take(pa.array(part.targets)),
                    pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names.take(pa.array(part.events[places]))),
                    pa.array(np.full(len(part), forget)),
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    return sum(map(len, sides))


def _write_items(path: Path, dataset: Dataset, split: ForgetSplit) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    items = dataset.items
    texts: dict[str, Any] = {"id": items.ids, "title": items.titles, "brand": items.brands, "text": items.texts}
    columns = {**texts, "description": items.descriptions, "price": items.prices, "concept": split.items}
    lists = {"categories": items.categories, **items.attributes}
    table = {name: pa.array(values) for name, values in columns.items()}
    table |= {name: pa.array(values, pa.list_(pa.string())) for name, values in lists.items()}
    parquet.write_table(pa.table(table), path)
