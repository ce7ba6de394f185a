"""Checks of per-user tables and metrics: possible, following from each other, and nobody else's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.forget import ConceptKind, TaskManifest
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.exposure import exposed_beams
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, Level, MetricValue
from genrec_unlearn_bench.evaluation.per_user import recompute
from genrec_unlearn_bench.evaluation.ranking import BEAMS, LIST_LENGTH, WIDE_BEAM, UserBlock, blocks
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER
from genrec_unlearn_bench.submissions.bundle import Bundle, Finding, Result, check
from genrec_unlearn_bench.submissions.plain_text import Refused
from genrec_unlearn_bench.submissions.publish import FAMILIES, numbered_users, read_table, rests_on
from genrec_unlearn_bench.submissions.record_checks import UNEDITED, published_records

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, Group, int | None]
Ranks = NDArray[np.int16]
"""[M] ranks of all rows of a table in their order, 0 where the target was not found."""

_OTHER = ("original", "exposed")
RANGES: Mapping[str, tuple[float, float]] = {
    "log_prob": (-1e9, 0),
    "concept_in_history": (0, 1e9),
    **dict.fromkeys(("n_list", "concept_in_list"), (0, LIST_LENGTH)),
    **{f"{lists}_rank": (-1, WIDE_BEAM) for lists in _OTHER},
    **{f"{lists}_{name}": (-1, LIST_LENGTH) for lists in _OTHER for name in ("n_list", "concept_in_list")},
    **dict.fromkeys(("near_prefix", "near_category", "near_concept", *FAMILIES["similarity"]), (-1, 1)),
    **dict.fromkeys(FAMILIES["influence"], (0, 1)),
}
"""Smallest and largest values of columns; -1 marks what was not measured."""
WITHOUT_BEAM = ("popularity", "sasrec")
"""Rows that score every item: their list is as long at both beams."""
_ROUNDING = 1e-6
"""Log-probabilities and cosines are sums of 32-bit numbers."""

EXACT = 1e-12
"""How far a mean may differ that is summed from the same numbers in the same order by another NumPy."""
_SHOWN = 5

# Counted are ranks that differ from the original of the same seed. Over 730 published tables, seeds of one row agree
# in at most .32 of them (.51 of all ranks), two methods of one seed, neither an ablation of the other, in at most .79.
OTHER_SEED = 0.6
"""Share of equal hit ranks from which two seeds count as one."""
SAME_SEED = 0.9
"""Share of equal hit ranks, where either differs from the original, from which two methods count as one."""
FEWEST = 20
"""Hit ranks from which a share says something: methods that change nothing, or find nothing, may agree in that."""
ORIGINAL = "original"


@check(
    "table",
    "tables are written by `bench run` and published by `bench submission new`, and not edited: run the cell again",
)
def check_rows(bundle: Bundle, result: Result, table: pd.DataFrame, withheld: frozenset[str]) -> Iterator[Finding]:
    where, manifest = result.table_path, bundle.manifests.get(result.record.cell.task)
    other = ~table["group"].isin([Group.FORGET.value, Group.RETAIN.value]) | ~table["beam"].isin(BEAMS)
    # Forget before retain, and each at the narrow beam before the wide one.
    order = (table["group"] != Group.FORGET.value).to_numpy() * 1000 + table["beam"].to_numpy(dtype=np.int64)
    if other.any() or (np.diff(order) < 0).any():
        yield where, "the groups and beams are not those of the protocol in their order"
        return
    if (table["target"] != -1).any() or not np.array_equal(numbered_users(table), table["user"].to_numpy()):
        yield where, "the table says what users chose, or their numbers are not in order of their first row"
    for family in sorted(withheld):
        if table[list(FAMILIES[family])].notna().any().any():
            yield where, f"the family {family!r} is said to be withheld, and some of it is there"
    wide, log_prob = result.record.cell.method in WITHOUT_BEAM, bool(table["log_prob"].notna().any())
    for block in blocks(table):
        name = f"group {block.group.value}, beam {block.beam}"
        examples = block.integers("example")
        wanted = len(examples) if manifest is None else manifest.counts.get(f"test_{block.group.value}", 0)
        if not np.array_equal(examples, np.arange(wanted)):
            yield where, f"{name}: the rows are not the {wanted} test examples of the manifest, each once and in order"
        for what, wrong in _impossible(block, manifest, wide=wide, log_prob=log_prob):
            if wrong.any():
                yield where, f"{name}: {what} ({int(wrong.sum())} rows, the first is example {examples[wrong][0]})"


@check("table", UNEDITED)
def check_rescored(bundle: Bundle, result: Result, table: pd.DataFrame, withheld: frozenset[str]) -> Iterator[Finding]:
    recorded, found, users = _by_key(result.record.metrics), _by_key(recompute(table)), _user_level()
    keys = [key for key in {**found, **recorded} if key in found or key[0] in users]
    wrong = [key for key in keys if rests_on(key[0]) not in withheld and not _equal(recorded.get(key), found.get(key))]
    for key in wrong[:_SHOWN]:
        more = f" (and {len(wrong) - _SHOWN} more)" if len(wrong) > _SHOWN and key == wrong[_SHOWN - 1] else ""
        what = f"is {_shown(recorded.get(key))} in the record, the table gives {_shown(found.get(key))}"
        yield result.at("metrics"), f"{_name(key)} {what}{more}"


def rescored(result: Result, withheld: frozenset[str]) -> set[str]:
    """Names of the record's metrics that are computed again from its table."""
    names = {value.metric for value in result.record.metrics}
    return {name for name in names & _user_level() if rests_on(name) not in withheld}


@check("result", UNEDITED)
def check_scores(bundle: Bundle, result: Result) -> Iterator[Finding]:
    """Invariants hold, in the oracle that the gaps imply as well; derived metrics are what their parts give."""
    recorded, where = _by_key(result.record.metrics), result.at("metrics")
    means = _implied_oracle(result.record.metrics).items()
    oracle = [MetricValue(metric=name, group=group, beam=beam, value=mean) for (name, group, beam), mean in means]
    for whose, values in (("the metrics", result.record.metrics), ("the oracle that the gaps imply", oracle)):
        for sentence in check_invariants(values)[:_SHOWN]:
            yield where, f"an invariant of {whose} is broken: {sentence}"
    gaps = {key for key in recorded if key[0].startswith("gap.")}
    known = metric_specs()
    wanted = {(f"gap.{name}", group, beam) for name, group, beam in recorded if f"gap.{name}" in known}
    if gaps and gaps != wanted:
        name = _name(sorted(gaps ^ wanted, key=str)[0])
        yield where, f"{name}: gaps are given for some metrics and left out for others"
    for key, value in recorded.items():
        name, group, beam = key
        kind, _, rest = name.partition(".")
        if kind == "gap":
            scaled = recorded.get((f"gapz.{rest}", group, beam))
            right = value.value / value.sd if value.value is not None and value.sd else None
            if scaled is None or not _close(scaled.value, right, 1e-9 * max(1.0, abs(right or 0.0))):
                yield where, f"{_name(key)}: gapz is not gap / sd"
        elif kind == "collateral-excess" and value.value is not None:
            sides = [recorded.get((f"collateral-change.{rest}", side, beam)) for side in (Group.NEIGHBOURS, Group.REST)]
            near, far = (side.value if side is not None else None for side in sides)
            if near is None or far is None or abs(near - far - value.value) > EXACT:
                yield where, f"{_name(key)} is not the difference of its two sides"


@check("bundle", UNEDITED)
def check_oracles(bundle: Bundle) -> Iterator[Finding]:
    seen: dict[tuple[object, ...], tuple[str, float]] = {}
    for result in bundle.results:
        stages = tuple(stage.digest for stage in result.record.stages if stage.name.startswith("evaluation of retrain"))
        means = _implied_oracle(result.record.metrics) if stages else {}
        for key, mean in means.items():
            place, first = seen.setdefault((stages, *key), (result.place, mean))
            if abs(first - mean) > 1e-9:
                yield result.at("metrics"), f"gap.{key[0]} rests on another number of the retrained model than {place}"
                break


def hit_ranks(table: pd.DataFrame) -> Ranks:
    return table["rank"].to_numpy(dtype=np.int16)


def shared(one: Ranks, other: Ranks, originals: tuple[Ranks | None, Ranks | None] = (None, None)) -> float:
    """Share of equal ranks among the rows in which either table has a hit (and differs from its original, if both are
    given); 0 where the tables are of different users, or the rows too few to say anything."""
    if one.shape != other.shape:
        return 0.0
    counted, (first, second) = (one > 0) | (other > 0), originals
    if first is not None and second is not None and first.shape == second.shape == one.shape:
        counted &= (one != first) | (other != second)
    found = int(counted.sum())
    return float((one == other)[counted].sum()) / found if found >= FEWEST else 0.0


@check("ranks", "two trainings never agree so far: run the second seed")
def check_twins(bundle: Bundle, tables: Mapping[str, Ranks]) -> Iterator[Finding]:
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in bundle.results:
        if result.place in tables and result.record.cell.method != "popularity":
            groups[_setting(result.record)].append(result)
    for setting, results in groups.items():
        known = _published(bundle.leaderboard / "results", setting[0], setting[1], ORIGINAL)
        originals = {record.cell.seed: ranks for record, _, ranks in known if _setting(record) == setting}
        for one, other in combinations(results, 2):
            (first, name), (second, other_name) = ((at.record.cell.seed, at.record.cell.method) for at in (one, other))
            pair = (originals.get(first), originals.get(second)) if ORIGINAL not in (name, other_name) else (None, None)
            share = shared(tables[one.place], tables[other.place], pair)
            if first != second and share > OTHER_SEED:
                where = f"{one.table_path} and {other.table_path}"
                yield where, f"the seeds {first} and {second} have the same lists: {share:.0%} of hit ranks are equal"


@check("ranks", "submit the method's own runs; a method that is published is not submitted under another name")
def check_copies(bundle: Bundle, tables: Mapping[str, Ranks]) -> Iterator[Finding]:
    if bundle.spec is None:
        return
    roots = [folder / "results" for folder in (bundle.leaderboard, *bundle.other_submissions())]
    folders = {(result.record.cell.task, result.record.cell.backbone) for result in bundle.results}
    published = [(root, *one) for root in roots for folder in sorted(folders) for one in _published(root, *folder)]
    for result in (one for one in bundle.results if one.place in tables):
        known = [one for one in published if _setting(one[1]) == _setting(result.record)]
        originals = {(root, other.cell.seed): ranks for root, other, _, ranks in known if other.cell.method == ORIGINAL}
        for root, other, place, ranks in known:
            # Whoever submits a published method again has its very file; and nothing is gained by having no effect.
            if other.method_digest == result.record.method_digest or other.cell.method == ORIGINAL:
                continue
            same_seed = other.cell.seed == result.record.cell.seed
            original = originals.get((root, other.cell.seed), originals.get((roots[0], other.cell.seed)))
            own = original if same_seed else originals.get((roots[0], result.record.cell.seed))
            share = shared(tables[result.place], ranks, (own, original))
            if share > (SAME_SEED if same_seed else OTHER_SEED):
                where = place.relative_to(bundle.leaderboard).as_posix()
                yield result.table_path, f"the table is that of {where}: {share:.0%} of the hit ranks are equal"
                break


def _setting(record: RunRecord) -> tuple[str, ...]:
    cell = record.cell
    return cell.task, cell.backbone, record.backbone_label, cell.scale, str(cell.requests)


def _published(root: Path, task: str, backbone: str, only: str = "") -> Iterator[tuple[RunRecord, Path, Ranks]]:
    for folder, record in published_records(root, task, backbone):
        if only in ("", record.cell.method):
            with suppress(OSError, Refused):
                yield record, folder, hit_ranks(read_table((folder / PER_USER).read_bytes(), PER_USER)[0])


def _impossible(
    block: UserBlock, manifest: TaskManifest | None, *, wide: bool, log_prob: bool
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """What no list of a block can have, and the rows that have it; ``wide``: lists are as long as the wide beam's."""
    longest = WIDE_BEAM if wide else max(LIST_LENGTH, block.beam)
    for column, (low, high) in {"rank": (0, longest), **RANGES}.items():
        values = block.numbers(column)
        yield f"{column} lies outside {low} … {high}", (values < low - _ROUNDING) | (values > high + _ROUNDING)
    ranks, filled, concept = (block.integers(column) for column in ("rank", "n_list", "concept_in_list"))
    yield "concept_in_list is more than the list holds", concept > filled
    yield "a target is placed behind the end of its list", (ranks <= LIST_LENGTH) & (ranks > filled)
    if log_prob:
        there = np.isfinite(block.numbers("log_prob"))
        yield "log_prob is there without a rank, or a rank without it", there != (ranks > 0)
    influence = np.isfinite(np.stack([block.numbers(column) for column in FAMILIES["influence"]]))
    none = (block.integers("concept_in_history") == 0) | (block.beam != WIDE_BEAM)
    wrong = (influence.any(axis=0) != influence.all(axis=0)) | (influence[0] & none)
    yield "history influence is there in part, or for a history or at a beam that has none", wrong
    if block.group is not Group.RETAIN:
        near = [block.integers(name) != -1 for name in RANGES if name.startswith("near_")]
        yield "neighbours are marked outside the retain group", np.logical_or.reduce(near)
    leaking = (WIDE_BEAM,) if block.group is Group.FORGET else ()
    for family, beams in (("original", leaking), ("exposed", exposed_beams(block.group))):
        parts = np.stack([block.integers(f"{family}_{name}") for name in ("rank", "n_list", "concept_in_list")])
        wrong = (parts[2] > parts[1]) | ((parts < 0).any(axis=0) != (parts < 0).all(axis=0))
        wrong |= (parts[0] >= 0) & (block.beam not in beams)
        yield f"{family}_* is there in part or where it is not measured, or with more than the list holds", wrong
    # A forget target is a concept item and a retain target is none, so a hit must show in the counts.
    hit = (ranks > 0) & (ranks <= LIST_LENGTH)
    if manifest is not None and block.group is Group.FORGET:
        yield "the target, a concept item, is in a list without concept items", hit & (concept < 1)
    elif manifest is not None and manifest.kind is not ConceptKind.INTERACTION:
        yield "the target, no concept item, is in a list of concept items alone", hit & (filled - concept < 1)


def _by_key(values: Iterable[MetricValue]) -> dict[Key, MetricValue]:
    return {(value.metric, value.group, value.beam): value for value in values}


def _user_level() -> frozenset[str]:
    return frozenset(name for name, spec in metric_specs().items() if spec.level is Level.USER)


def _equal(recorded: MetricValue | None, found: MetricValue | None) -> bool:
    if recorded is None or found is None or recorded.n != found.n:
        return False
    # Metrics have been given intervals since the first results were published, so a record may lack one.
    if recorded.interval is not None and not np.allclose(
        recorded.interval, found.interval or np.nan, rtol=0, atol=1e-9
    ):
        return False
    return _close(recorded.value, found.value, EXACT) and _close(recorded.sd, found.sd, EXACT)


def _close(one: float | None, other: float | None, most: float) -> bool:
    return abs(one - other) <= most if one is not None and other is not None else one is other


def _implied_oracle(values: Sequence[MetricValue]) -> dict[Key, float]:
    """The oracle's means: value minus gap. Means keep every bound, as all bounds are linear."""
    recorded, means = _by_key(values), {}
    for (name, group, beam), gap in recorded.items():
        base = recorded.get((name.removeprefix("gap."), group, beam))
        if name.startswith("gap.") and base and base.value is not None and gap.value is not None:
            means[base.metric, group, beam] = base.value - gap.value
    return means


def _name(key: Key) -> str:
    metric, group, beam = key
    return f"{metric} ({group.value}{'' if beam is None else f', beam {beam}'})"


def _shown(value: MetricValue | None) -> str:
    return "missing" if value is None else f"{value.value} (n {value.n}, sd {value.sd}, interval {value.interval})"
