"""A task on its dataset as data frames, and as a ``datasets.DatasetDict``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.forget import ForgetSplit
from genrec_unlearn_bench.data.tasks import TaskSpec
from genrec_unlearn_bench.errors import MissingExtra

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
        columns: dict[str, Any] = {
            "id": items.ids,
            "title": items.titles,
            "brand": items.brands,
            "categories": items.categories,
        }
        columns |= {"price": items.prices, "description": items.descriptions, "text": items.texts}
        return pd.DataFrame({**columns, "concept": self.split.items})

    @cached_property
    def interactions(self) -> pd.DataFrame:
        """Every interaction that is predicted: user (a number), item (its id), part (train, valid, test), ``forget``.

        A user's first interactions are histories alone. For the kind ``interaction`` the forget side of valid and test
        is taken from train.
        """
        import pandas as pd

        rows = [frame.drop(columns="history") for _, frame in self._parts(histories=False)]
        return pd.concat(rows, ignore_index=True)

    def to_datasets(self) -> DatasetDict:
        """Splits train, valid and test with the columns user, item, part, forget and ``history`` (ids, oldest first).

        Raises MissingExtra where ``datasets`` is not installed.
        """
        try:
            from datasets import Dataset as Table
            from datasets import DatasetDict
        except ImportError:
            raise MissingExtra("datasets", "data", "a DatasetDict") from None
        return DatasetDict({part: Table.from_pandas(frame, preserve_index=False) for part, frame in self._parts()})

    def _parts(self, *, histories: bool = True) -> Iterator[tuple[str, pd.DataFrame]]:
        import pandas as pd

        ids = np.array(self.dataset.items.ids, dtype=object)
        for part in ("train", "valid", "test"):
            groups = getattr(self.split, part)
            found = []
            for name, examples in (("forget", groups.forget), ("retain", groups.retain)):
                frame = pd.DataFrame({"user": examples.users, "item": ids[examples.targets], "part": part})
                spans = zip(examples.starts, examples.ends, strict=True) if histories else ()
                past = [ids[examples.events[start:end]].tolist() for start, end in spans]
                frame = frame.assign(forget=name == "forget", history=past if histories else None, at=examples.times)
                found.append(frame)
            whole = pd.concat(found, ignore_index=True)
            yield part, whole.sort_values(["at", "user"], kind="stable", ignore_index=True).drop(columns="at")
