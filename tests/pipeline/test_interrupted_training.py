"""A run that is killed while the original trains goes on inside that training when it is called again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from genrec_unlearn_bench.backbones.snapshots import Resumption
from tests.pipeline.conftest import Bench, Told


class Killer(Told):
    """Interrupts the training of the original after three steps."""

    def track(self, label: str, sequence: Iterable[Any], *, total: int | None = None) -> Iterator[Any]:
        for number, part in enumerate(sequence):
            if label == "train" and number == 3:
                raise KeyboardInterrupt
            yield part


def test_an_interrupted_training_goes_on(
    trained: Bench, bench_at: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resumption, "due", property(lambda self: True))
    copy = bench_at("copy")
    shutil.copytree(trained.root, copy.root)
    wanted = next(stage for stage in copy.run("original").record.stages if stage.name == "original")
    shutil.rmtree(copy.root / "cache" / "original")
    copy.told = Killer()
    with pytest.raises(KeyboardInterrupt):
        copy.run("original")
    assert list((copy.root / "cache" / "unfinished" / "original" / wanted.key).iterdir())
    copy.told = Told()
    record = copy.run("original").record
    assert any("going on after step 3 of" in line for line in copy.told.lines)
    found = next(stage for stage in record.stages if stage.name == "original")
    assert found.digest == wanted.digest, "weights and losses are the same to the bit"
    assert copy.told.computed == ["original"], "what was measured on the same bits is still good"
    assert not (copy.root / "cache" / "unfinished" / "original" / wanted.key).exists()
