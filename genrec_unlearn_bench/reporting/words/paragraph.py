"""The paragraph "Statistical analysis" of a paper, written from its tables: every number in it is theirs.

As plain text and as LaTeX, ready to paste. It says what was done and what was found, how often, and what could not be
found with so few seeds; which result matters is for the author to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata

from genrec_unlearn_bench.reporting.citations.bibliography import Bibliography, bibliography
from genrec_unlearn_bench.reporting.formats.notes import listed
from genrec_unlearn_bench.reporting.latex.escape import shorten
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.words import claims
from genrec_unlearn_bench.reporting.words.facts import Facts, Short, facts
from genrec_unlearn_bench.reporting.words.prose import Cite, Paragraph, Piece, Sentence
from genrec_unlearn_bench.reporting.words.wording import counted, spanned, verb

__all__ = ["installed_versions", "statistical_paragraph"]

SOFTWARE = ("numpy", "scipy")
TITLE = "Statistical analysis"
NAMED = 6
"""Places that are named when runs are missing or diverged; more are counted."""


def statistical_paragraph(tables: Sequence[Table], *, versions: Mapping[str, str] | None = None) -> Paragraph:
    """The paragraph of some tables of one call.

    Args:
        versions: Of the packages that computed the statistics, as ``installed_versions`` has them. Without them the
            packages are named alone, and the same results give the same text everywhere.
    """
    if not tables:
        return Paragraph(TITLE, ())
    found, books = facts(tables), bibliography(tables)
    sentences = (
        *_compared(found, books),
        *_seeds(found),
        *claims.against(found, books),
        *claims.outcome(found, books),
        *claims.pairs(found),
        *claims.sign_flip(found, books),
        *claims.equivalence(found, books),
        *claims.across(tables, found, books),
        *_diverged(found),
        *_software(found, books, versions or dict.fromkeys(SOFTWARE, "")),
    )
    return Paragraph(TITLE, sentences)


def _compared(found: Facts, books: Bibliography) -> Iterable[Sentence]:
    methods, rows = found.rows("method"), found.rows("reference")
    pieces: list[Piece] = [f"We compare {counted(len(methods), 'method', words=True)} ("]
    cited = {row.label: row.method for block in found.blocks for row in block.block.rows}
    pieces += _names(methods, lambda name: books.cited(f"method:{cited[name]}"))
    beside = f" with {counted(len(rows), 'reference row', words=True)} ({listed(map(shorten, rows))})" if rows else ""
    pieces.append(f"){beside}")
    tasks, backbones = found.tasks, found.backbones
    datasets = books.cited(*(name for name in books.keys if name.startswith("dataset:")))
    pieces += [f" on {counted(len(tasks), 'task', words=True)} ({listed(map(shorten, tasks))})", Cite(datasets)]
    pieces += [f" and {counted(len(backbones), 'backbone', words=True)} ("]
    bases = {block.block.key.backbone: block.block.rows[0].first.backbone for block in found.blocks}
    pieces += _names(backbones, lambda name: books.cited(f"backbone:{bases[name]}"))
    scale, ruleset = listed(found.scales), listed(found.rulesets)
    plural = verb(len(found.rulesets), "ruleset", "rulesets")
    pieces += [
        f"), at scale {scale} and under the {plural} {ruleset} of genrec_unlearn_bench",
        Cite(books.cited("suite")),
    ]
    yield (*pieces, ".")
    shown = [name for name in methods if name in found.shown]
    if len(shown) < len(methods):
        yield (f"The tables show {counted(len(shown), 'method')} of these; all were tested together.",)


def _names(names: Sequence[str], cite: Callable[[str], tuple[str, ...]]) -> list[Piece]:
    """Names in a list, each with its citations, a key only once."""
    out: list[Piece] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        joint = "" if place == 0 else " and " if place == len(names) - 1 else ", "
        keys = tuple(key for key in cite(name) if key not in seen)
        seen.update(keys)
        out += [joint + shorten(name), Cite(keys)]
    return out


def _seeds(found: Facts) -> Iterable[Sentence]:
    least, most = found.seeds
    wanted = found.protocol.seeds
    short = f" (the protocol asks for {wanted})" if least < wanted else ""
    if most == 1:
        yield (f"Every row was run with a single seed{short}, so that neither spread nor significance can be given.",)
        return
    confidence = f"{100 * found.protocol.confidence:g}%"
    yield (
        f"Rows were run with {spanned((least, most))} training seeds{short}, which all rows of a task and backbone "
        "share, so that comparisons are paired by seed.",
    )
    yield (f"Tables give means and standard deviations over seeds; intervals are {confidence} t intervals over seeds.",)
    if found.fewer:
        rows = len({label for group in found.fewer for label in group.labels})
        named = f": {'; '.join(map(_place, found.fewer))}" if len(found.fewer) <= NAMED else " in some blocks"
        yield (f"{counted(rows, 'row', words=True).capitalize()} {verb(rows, 'has', 'have')} fewer{named}.",)


def _diverged(found: Facts) -> Iterable[Sentence]:
    if found.diverged:
        names = "; ".join(map(_place, found.diverged[:NAMED]))
        more = f"; and in {len(found.diverged) - NAMED} further places" if len(found.diverged) > NAMED else ""
        yield (f"Rows with a diverged run are shown as diverged, and neither ranked nor tested: {names}{more}.",)


def _software(found: Facts, books: Bibliography, versions: Mapping[str, str]) -> Iterable[Sentence]:
    suites = sorted({row.first.suite_version for block in found.blocks for row in block.block.rows})
    named = {"numpy": "NumPy", "scipy": "SciPy"}
    pieces: list[Piece] = [
        f"Results come from genrec_unlearn_bench {listed(suites)} ({found.protocol.name}); statistics were computed "
        "with "
    ]
    for place, (name, version) in enumerate(versions.items()):
        joint = "" if place == 0 else " and " if place == len(versions) - 1 else ", "
        pieces += [f"{joint}{named.get(name, name)} {version}".rstrip(), Cite(books.cited(f"software:{name}"))]
    yield (*pieces, ".")


def installed_versions() -> dict[str, str]:
    """Versions of the packages that compute the statistics here."""
    return {name: metadata.version(name) for name in SOFTWARE}


def _place(short: Short) -> str:
    names = listed(map(shorten, short.labels))
    each = " each" if len(short.labels) > 1 else ""
    return f"{names} on {shorten(short.task)} with {shorten(short.backbone)} ({short.n} of {short.of}{each})"
