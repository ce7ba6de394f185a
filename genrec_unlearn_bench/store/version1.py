"""Keys as they were in version 1: the text of every module that is imported, for type checkers too. Read by
``bench cache migrate`` alone, which has to know whether a stage's code is still today's.

A key of version 1 lists its modules and not where the listing began, so the beginnings that each kind of stage had are
written down here once more, for ever: a listing is that of a beginning where both agree to the last digest.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.store.keys import KeyContent, canonical
from genrec_unlearn_bench.store.plain_source import source_digest
from genrec_unlearn_bench.store.sources import INERT, PACKAGE, module_file, read_source

__all__ = ["Code", "beginnings", "key_of_version_1"]

_ALL = f"{PACKAGE}."
_CORE = ("evaluation.core", "evaluation.per_user", "evaluation.lists")


class Code:
    """The code below a folder of sources, as both versions of keys list it.

    Args:
        source: Folder of an older checkout, which is read and never run; the installed package where there is none.
    """

    def __init__(self, source: Path | None = None) -> None:
        self._source = source
        self._listings: dict[tuple[str, ...], tuple[dict[str, str], dict[str, str]]] = {}

    def listings(self, beginning: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
        """What versions 1 and 2 list for some modules and all that they import."""
        roots = tuple(beginning)
        if roots not in self._listings:
            self._listings[roots] = (self._walk(roots, old=True), self._walk(roots, old=False))
        return self._listings[roots]

    def changed(self, listing: Mapping[str, str]) -> list[str]:
        """Modules of a listing of version 1 whose text is another one here."""
        return [module for module, digest in listing.items() if (self._read(module, old=True) or ("",))[0] != digest]

    def _walk(self, roots: Iterable[str], *, old: bool) -> dict[str, str]:
        found: dict[str, str] = {}
        waiting = list(roots)
        while waiting:
            module = waiting.pop()
            read = None if module in found or module in INERT else self._read(module, old=old)
            if read is not None:
                found[module] = read[0]
                waiting.extend(read[1])
        return dict(sorted(found.items()))

    def _read(self, module: str, *, old: bool) -> tuple[str, tuple[str, ...]] | None:
        path = self._file(module)
        return None if path is None else _read_old(path) if old else _read_new(path)

    def _file(self, module: str) -> Path | None:
        if self._source is None:
            return module_file(module)
        if module != PACKAGE and not module.startswith(_ALL):
            return None
        place = self._source.joinpath(*module.split("."))
        return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def key_of_version_1(stage: str, content: KeyContent) -> str:
    """The key a content had."""
    text = canonical({"key_version": 1, "stage": stage, "content": dict(content)})
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).hexdigest()


def beginnings(stage: str, content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The modules at which the listing of such a stage may have begun; none for a stage that is not known here."""
    if stage == "dataset":
        name = str(content["format"]).replace("amazon-", "amazon")
        yield _named("data.prepare", "data.storage", *(() if name == "demo" else (f"data.formats.{name}",)))
    elif stage == "features":
        yield _named("features.encode_items", "features.storage")
    elif stage == "sasrec":
        yield _named("backbones.sasrec.ranker")
    elif stage == "popularity":
        yield _named("backbones.popularity")
    elif stage == "stream":
        yield _named("runs.stream.account")
    elif stage in ("sids", "sids-full"):
        yield from ((*modules, *_named("sids.storage")) for modules in _tokenizers())
    else:
        yield from _with_a_backbone(stage, content)


def _with_a_backbone(stage: str, content: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    own: list[tuple[str, ...]] = []
    if stage in ("original", "retrain", "retrain-full"):
        own = [_named("data.forget")]
    elif stage == "evaluation":
        own = [_named(*_CORE)]
    elif stage == "validated":
        own = [_named("unlearning.validation")]
    elif stage == "u-lira":
        own = [_named("runs.shadows")]
    elif stage == "unlearned":
        own = [(module,) for module in _methods()]
    else:
        own = _measuring(stage)
    for modules in own:
        for backbone, place in _backbones().items():
            if content.get("backbone", backbone) == backbone:
                yield (*modules, place)


def _named(*names: str) -> tuple[str, ...]:
    return tuple(f"{_ALL}{name}" for name in names)


def _backbones() -> dict[str, str]:
    from genrec_unlearn_bench.backbones.catalogue import backbones

    return {name: place.partition(":")[0] for name, place in backbones().items()}


def _tokenizers() -> list[tuple[str, ...]]:
    from genrec_unlearn_bench.backbones.catalogue import backbones, load_backbone

    return list(dict.fromkeys(load_backbone(name).tokenizer_modules() for name in backbones()))


def _measuring(stage: str) -> list[tuple[str, ...]]:
    """Of a measurement beyond the core, or of a reading that measurements share."""
    from genrec_unlearn_bench.evaluation.suites import find_measurement, measurements

    found = [find_measurement(name) for name in measurements()]
    parts = [(one.name, one.modules) for one in found]
    parts += [(taken.name, (taken.target.partition(":")[0],)) for one in found for taken in one.passes]
    return list(dict.fromkeys(tuple(modules) for name, modules in parts if name == stage))


def _methods() -> list[str]:
    from genrec_unlearn_bench.registry import methods

    targets = [entry.target for entry in methods().values() if entry.origin == "package"]
    return sorted({target.partition(":")[0] for target in targets if ":" in target})


@cache
def _read_new(path: Path) -> tuple[str, tuple[str, ...]]:
    return read_source(path)


@cache
def _read_old(path: Path) -> tuple[str, tuple[str, ...]]:
    """The digest of a source's text and every module of this package that it names in an import."""
    text = path.read_text(encoding="utf-8")
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return source_digest(text), tuple(dict.fromkeys(name for name in names if name.startswith(PACKAGE)))
