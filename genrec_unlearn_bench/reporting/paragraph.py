"""A generated paragraph in its two forms: plain text, and LaTeX with citations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata

from numpy import format_float_positional

from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.bibliography import Bibliography, bibliography
from genrec_unlearn_bench.reporting.facts import Facts, Short, facts
from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import PairedTest
from genrec_unlearn_bench.reporting.statistics.power import smallest_attainable
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import counted, listed, p_text, spanned, verb

__all__ = [
    "Cite",
    "Paragraph",
    "Piece",
    "Sentence",
    "across",
    "against",
    "equivalence",
    "installed_versions",
    "outcome",
    "pairs",
    "sign_flip",
    "statistical_paragraph",
]

_T = re.compile(r"\bt(?=-test| interval)")


@dataclass(frozen=True)
class Cite:
    """A place for citations; plain text has none."""

    keys: tuple[str, ...]


Piece = str | Cite
Sentence = tuple[Piece, ...]


@dataclass(frozen=True)
class Paragraph:
    """Sentences under a heading."""

    title: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """Plain text, in one line; empty without sentences."""
        lines = ["".join(piece for piece in sentence if isinstance(piece, str)) for sentence in self.sentences]
        return " ".join([f"{self.title}.", *lines]) if lines else ""

    @property
    def latex(self) -> str:
        """LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
        lines = ["".join(_tex(piece) for piece in sentence) for sentence in self.sentences]
        return "\n".join([rf"\paragraph{{{escape(self.title)}.}}", *lines, ""]) if lines else ""


def _tex(piece: Piece) -> str:
    if isinstance(piece, Cite):
        return rf"~\cite{{{','.join(piece.keys)}}}" if piece.keys else ""
    # Escaping trims, and spaces at the ends of pieces part them from citations.
    head, tail = " " * piece.startswith(" "), " " * (piece.endswith(" ") and len(piece) > 1)
    return head + _T.sub("$t$", escape(piece)) + tail


def against(found: Facts, books: Bibliography) -> Iterable[Sentence]:
    """What was tested against the baseline, and how."""
    primary = listed(measure.title for measure in found.primary)
    if not primary:
        return
    number = len(found.primary)
    yield (f"The primary {verb(number, 'measure is', 'measures are')} {primary}{_beam(found)}, as the suite fixes.",)
    if found.against is None:
        row = listed(found.baselines) or found.protocol.baseline
        yield (
            f"On {verb(number, 'it', 'them')} no method could be tested against {row}: too few seeds have a value of "
            "both.",
        )
        return
    tests = spanned(found.against)
    yield (
        f"On {verb(number, 'it', 'them')} every method was tested against {listed(found.baselines)} by two-sided "
        "paired t-tests over seeds",
        Cite(books.cited("statistics:t")),
        ", and the p-values were corrected by Holm's procedure",
        Cite(books.cited("statistics:holm")),
        f" over all methods and primary measures of a task and backbone ({tests} tests) at a family-wise level of "
        f"α = {found.protocol.alpha:g}.",
    )


def outcome(found: Facts, books: Bibliography) -> Iterable[Sentence]:
    """What these tests said, their effect sizes, and what they could have found."""
    counts = found.verdicts
    total = sum(counts.values())
    if not total:
        return
    words = {
        Verdict.BETTER: "found the method better",
        Verdict.WORSE: "found the method worse",
        Verdict.NOT_SEPARABLE: "did not separate the two",
    }
    said = {text: counts[verdict] for verdict, text in words.items() if counts.get(verdict)}
    tested = total - counts.get(Verdict.UNDERPOWERED, 0)
    if len(said) == 1:
        yield (
            f"{'The one' if tested == 1 else f'All {tested}'} such {verb(tested, 'test', 'tests')} {next(iter(said))}.",
        )
    elif said:
        yield (f"Of {tested} such tests, {listed(f'{number} {text}' for text, number in said.items())}.",)
    few = counts.get(Verdict.UNDERPOWERED, 0)
    if few:
        yield (
            f"{_few(few, tested)} {verb(few, 'was', 'were')} "
            "underpowered: with so few seeds no result could have reached significance "
            f"(smallest attainable p {p_text(_least(found))}).",
        )
    if found.effects is not None:
        low, middle, high = found.effects
        yield (
            "Effect sizes are Hedges' g of the paired differences",
            Cite(books.cited("statistics:effect")),
            f"; their magnitudes lie between {_two(low)} and {_two(high)} (median {_two(middle)}).",
        )
    seen = [(measure, found.detectable(measure)) for measure in found.primary]
    detectable = [f"{_number(measure, value)} for {measure.title}" for measure, value in seen if value is not None]
    if detectable:
        yield (
            f"The smallest true difference that such a test finds with power {found.protocol.power:g} at the first "
            f"step of Holm's procedure is {listed(detectable)} (medians over methods, tasks and backbones, from the "
            "observed spreads).",
        )


def pairs(found: Facts) -> Iterable[Sentence]:
    """Where bold, underlined and ranks come from."""
    if found.pairs is None:
        return
    yield (
        "Best sets (bold), second sets (underlined) and rank intervals come from a second family, all pairs of "
        f"methods on the same measures ({spanned(found.pairs)} tests for a task and backbone), tested and corrected in "
        "the same way: bold are the best mean and all that no test separates from it.",
    )
    yield (
        "All other measures are exploratory: their two families are corrected on their own, and no claim rests on "
        "them.",
    )


def sign_flip(found: Facts, books: Bibliography) -> Iterable[Sentence]:
    """Whether the exact test stands beside the t-test."""
    most = found.seeds[1]
    from_ = found.protocol.sign_flip_from
    if most >= from_:
        yield (
            f"From {from_} seeds up the exact sign-flip test",
            Cite(books.cited("statistics:sign-flip")),
            " over seeds stands beside the t-test in the tables' data files.",
        )
    elif most > 1:
        least = smallest_attainable(most, 1, PairedTest.SIGN_FLIP)
        yield (
            f"The exact sign-flip test is not reported, as with {most} seeds its p-value cannot fall below {least:g}.",
        )


def equivalence(found: Facts, books: Bibliography) -> Iterable[Sentence]:
    """How methods compare to the oracle."""
    counts = found.likeness
    margins = [(measure, found.margins(measure)) for measure in found.primary]
    shown = [f"{_span(measure, span)} for {measure.title}" for measure, span in margins if span is not None]
    oracle, quantile = found.protocol.oracle, f"{100 * found.protocol.equivalence_quantile:g}%"
    if not shown:
        if found.seeds[1] > 1:
            yield (f"Equivalence to {oracle} was not tested, as its margin needs three seeds of that row.",)
        return
    yield (
        f"Equivalence to {oracle} was tested by two one-sided paired t-tests",
        Cite(books.cited("statistics:tost")),
        f" at the level {LEVEL:g} each, not corrected for their number; the margin is the {quantile} quantile of the "
        f"differences between retrained models, and no less than one test example counts ({listed(shown)}).",
    )
    same = counts.get(Likeness.EQUIVALENT, 0) + counts.get(Likeness.IDENTICAL, 0)
    other = counts.get(Likeness.DIFFERENT, 0)
    open_ = counts.get(Likeness.NOT_SHOWN, 0)
    total = same + other + open_
    if total:
        yield (
            f"Of {counted(total, 'comparison')} of a method with {oracle} on a primary measure, {same or 'none'} "
            f"showed equivalence, {other or 'none'} a difference beyond the margin, and {open_ or 'none'} neither; a "
            "difference that is not significant is not read as equivalence.",
        )


def across(tables: Sequence[Table], found: Facts, books: Bibliography) -> Iterable[Sentence]:
    """Friedman's test, from the protocol's number of blocks up."""
    analyses = {id(table.analysis): table.analysis for table in tables}
    compared = [result for analysis in analyses.values() for result in compare_across(analysis)]
    tested = [result for result in compared if result.found is not None]
    for result in tested:
        if result.found is None:
            continue
        methods = len(result.standings)
        yield (
            f"Across {result.blocks} tasks and backbones, Friedman's test",
            Cite(books.cited("statistics:friedman")),
            f" over the {methods} methods that were measured in all of them gives χ²({methods - 1}) = "
            f"{result.found.statistic:.2f}, {_p(result.found.p)} for {result.measure.title}; post-hoc comparisons are "
            "Siegel and Castellan's, corrected by Holm's procedure.",
        )
    blocks = len(found.blocks)
    if not tested and 1 < blocks < found.protocol.friedman_blocks:
        yield (
            f"Methods are not compared across tasks and backbones: the protocol asks for "
            f"{found.protocol.friedman_blocks} such blocks, and there are {blocks}.",
        )


def _beam(found: Facts) -> str:
    beams = sorted({measure.beam for measure in found.primary if measure.beam is not None})
    return f" (beam width {listed(map(str, beams))})" if beams else ""


def _least(found: Facts) -> float:
    """The smallest p that the underpowered comparisons could have had, over all of them."""
    numbers = {
        cell.difference.n
        for block in found.blocks
        for cell in block.cells.values()
        if cell.difference is not None and cell.difference.verdict is Verdict.UNDERPOWERED
    }
    return min(smallest_attainable(n, 1, PairedTest.SIGN_FLIP) for n in numbers)


def _p(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def _few(number: int, tested: int) -> str:
    words = counted(number, "further comparison" if tested else "comparison", words=True)
    return words[0].upper() + words[1:]


def _two(value: float) -> str:
    """An effect size as it is read: no more than two decimals, and none from ten up."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _number(measure: Measure, value: float) -> str:
    return _plain(value) + _unit(measure)


def _span(measure: Measure, span: tuple[float, float]) -> str:
    low, high = map(_plain, span)
    return (low if low == high else f"{low} to {high}") + _unit(measure)


def _plain(value: float) -> str:
    """Two significant digits, without an exponent."""
    return format_float_positional(value, precision=2, fractional=False, trim="-")


def _unit(measure: Measure) -> str:
    unit = measure.spec.unit
    return f" {unit}" if unit in ("seconds", "MiB", "nats", "bits") else ""


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
        *against(found, books),
        *outcome(found, books),
        *pairs(found),
        *sign_flip(found, books),
        *equivalence(found, books),
        *across(tables, found, books),
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
