"""What the statistics of some tables claim, in sentences: the tests, their outcome, equivalence, and across blocks.

Every sentence stands only where there is something to say, and its numbers are counted by ``facts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from numpy import format_float_positional

from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.citations.bibliography import Bibliography
from genrec_unlearn_bench.reporting.formats.notes import listed
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.numbers import p_text
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.power import smallest_attainable
from genrec_unlearn_bench.reporting.statistics.sign_flip import PairedTest
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.words.facts import Facts
from genrec_unlearn_bench.reporting.words.prose import Cite, Sentence
from genrec_unlearn_bench.reporting.words.wording import counted, spanned, verb

__all__ = ["across", "against", "equivalence", "outcome", "pairs", "sign_flip"]


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
