"""Results put in order: blocks of runs that may be compared, rows of one method each, a run for every seed.

A block is one task on one backbone at one scale under one ruleset, on the same data, texts and configurations, measured
by one suite after one number of requests: what differs there is never put into one table. A suite that keeps
interactions from training has another original and other oracles than one that does not. In a row every run comes from
one version of the method with one configuration; what is older, or made with tuning seeds, is left out, and the board
says so.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import ProtocolMismatch
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.pipeline.record import weak_original
from genrec_unlearn_bench.registry import REFERENCE_ROWS
from genrec_unlearn_bench.reporting.measure import GAP, RECORDED_COSTS, Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.statistics.equivalence import margin

FloatArray = NDArray[np.float64]

CORE = "core"
"""The suite that tables do not name."""


@dataclass(frozen=True, order=True)
class BlockKey:
    """The experiment that a block's runs share.

    Attributes:
        regime: A suite beyond the core, a number of requests; empty for one request measured by the core. Blocks of two
            regimes never share a table, let alone a row.
        variant: The regime, and what tells a block from another one of the same names: one of two setups.
    """

    task: str
    backbone: str
    scale: str
    ruleset: str
    variant: str = ""
    regime: str = ""

    @property
    def table(self) -> tuple[str, ...]:
        """Regime, ruleset and scale as parts of a file's name; blocks that differ in them never share a table."""
        return (*(part.replace(" ", "-") for part in self.regime.split(", ") if part), self.ruleset, self.scale)

    @property
    def title(self) -> str:
        """For headings: sports-brand · tiger · small · tuned."""
        return " · ".join(part for part in (self.task, self.backbone, self.scale, self.ruleset, self.variant) if part)


@dataclass(frozen=True, eq=False)
class Row:
    """One method in one block.

    Attributes:
        label: What tables call it: the method's name, with what tells it from others of that name.
        kind: Reference rows are neither ranked nor in a family of tests.
        results: By seed, ascending.
    """

    label: str
    method: str
    kind: Literal["reference", "method"]
    results: Mapping[int, Result]

    @property
    def diverged(self) -> tuple[int, ...]:
        """Seeds whose run diverged: shown as that, and never ranked."""
        return tuple(seed for seed, result in self.results.items() if result.diverged)

    @property
    def ended_early(self) -> tuple[int, ...]:
        """Seeds of runs behind which ``max_hours`` ended a training."""
        return tuple(seed for seed, result in self.results.items() if result.ended_early)

    @property
    def first(self) -> Result:
        """Any of its results, for what they all share."""
        return next(iter(self.results.values()))


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that may be compared: references first, in the protocol's order, then methods by name."""

    key: BlockKey
    rows: tuple[Row, ...]
    oracle: Row | None

    @cached_property
    def by_label(self) -> Mapping[str, Row]:
        return {row.label: row for row in self.rows}

    @cached_property
    def original_over_sasrec(self) -> float | None:
        """The original's retain NDCG@10 over SASRec's, mean over seeds; None where no record of ours says."""
        runs = (result for row in self.rows for result in row.results.values() if not result.source.name)
        found = {run.seed: run.original_over_sasrec for run in runs if run.original_over_sasrec is not None}
        return sum(found.values()) / len(found) if found else None

    @property
    def weak(self) -> str:
        """Why the block's original is weak, as a clause; empty where it is not, or nothing is known."""
        return weak_original(self.original_over_sasrec)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds of all rows, ascending."""
        return tuple(sorted({seed for row in self.rows for seed in row.results}))

    @cached_property
    def _recommenders(self) -> Mapping[tuple[int, str], str]:
        """Digest of a seed's original and retrained model in most rows; of equally many, in the first."""
        found: dict[tuple[int, str], Counter[str]] = {}
        for row in self.rows:
            for seed, result in row.results.items():
                for name, digest in result.recommenders.items():
                    found.setdefault((seed, name), Counter())[digest] += 1
        return {place: digests.most_common(1)[0][0] for place, digests in found.items()}

    def unpaired(self, row: Row) -> tuple[int, ...]:
        """Seeds of a row with another original or retrained model than the other rows: trained on another kind of
        processor, or by other code. Differences to other rows then hold the noise of two trainings."""
        return tuple(
            seed
            for seed, result in row.results.items()
            if any(self._recommenders[seed, name] != digest for name, digest in result.recommenders.items())
        )

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Those that some result has a number for, in order of first appearance; costs without one as well."""
        values = (pair for row in self.rows for result in row.results.values() for pair in result.values.items())
        return tuple(dict.fromkeys(m for m, value in values if value is not None or m in RECORDED_COSTS))

    def margin(self, measure: Measure, quantile: float) -> float | None:
        """How far retrained models lie apart on a measure, and no less than one test example moves it.

        None where being like the oracle means nothing: for token overlap and cost, as the oracle keeps the original's
        table and pays for the retraining. A gap of the oracle's row is 0 in every seed, so its margin is that of the
        measure.
        """
        own = measure.base
        if self.oracle is None or f"{GAP}{own.metric}" not in metric_specs():
            return None
        examples = self.oracle.first.examples.get(own)
        low, high = own.spec.range
        step = (high - low) / examples if examples and np.isfinite(high - low) else 0.0
        return margin(self.values(own)[self.rows.index(self.oracle)], quantile=quantile, resolution=step)

    def values(self, measure: Measure) -> FloatArray:
        """[rows, seeds] of a measure; NaN where a seed was not run, has diverged or was not measured.

        A ``gap.`` measure is the base measure minus the oracle's of the same seed.
        """
        base, place = measure.base, {seed: j for j, seed in enumerate(self.seeds)}
        out = np.full((len(self.rows), len(self.seeds)), np.nan)
        for i, row in enumerate(self.rows):
            for seed, result in row.results.items():
                value = result.values.get(base)
                if value is not None and not result.diverged:
                    out[i, place[seed]] = value
        if base == measure:
            return out
        oracle = out[self.rows.index(self.oracle)] if self.oracle is not None else np.nan
        return np.asarray(out - oracle)


@dataclass(frozen=True, eq=False)
class Board:
    """All blocks, by task, backbone, scale and ruleset; and what was left out, as sentences."""

    blocks: tuple[Block, ...]
    left_out: tuple[str, ...] = field(default=())


def make_board(results: Iterable[Result], protocol: StatisticsProtocol) -> Board:
    """Sort results into blocks and rows.

    Raises ProtocolMismatch where results of another protocol version are among them.
    """
    chosen: list[Result] = []
    tuning = submitted = 0
    for result in results:
        if result.protocol_version != protocol.suite_protocol:
            raise ProtocolMismatch(
                f"a result of protocol {result.protocol_version} cannot share a table with protocol "
                f"{protocol.suite_protocol}",
                where=result.place,
                hint="run it again with this version, or make its table with the version that it was run with",
            )
        if result.seed >= protocol.tuning_seeds_from:
            tuning += 1
        elif result.source.name and result.method in protocol.references:
            # A submission never provides the baseline or the oracle, not even where the suite has none.
            submitted += 1
        else:
            chosen.append(result)
    left_out = [f"{tuning} runs with tuning seeds ({protocol.tuning_seeds_from} and above)"] if tuning else []
    left_out += [f"{submitted} runs of reference rows that belong to submissions"] if submitted else []
    places: dict[tuple[str, str, str, str], dict[str, list[Result]]] = {}
    for result in without_copies(chosen):
        place = (result.task, result.backbone_label, result.scale, _regime(result))
        places.setdefault(place, {}).setdefault(_setup(result), []).append(result)
    blocks: list[Block] = []
    for (task, backbone, scale, regime), setups in sorted(places.items()):
        names = _setup_names([group[0] for group in setups.values()])
        for name, group in zip(names, setups.values(), strict=True):
            variant = ", ".join(part for part in (regime, name) if part)
            # A row without a configuration has nothing that could be tuned: it belongs to every ruleset.
            rulesets = sorted({result.ruleset for result in group if not _free(result)}) or ["default"]
            for ruleset in rulesets:
                key = BlockKey(task, backbone, scale, ruleset, variant, regime)
                members = [*filter(_free, group), *(r for r in group if not _free(r) and r.ruleset == ruleset)]
                blocks.append(_block(key, members, protocol, left_out))
    return Board(tuple(sorted(blocks, key=lambda block: block.key)), tuple(left_out))


def without_copies(results: Sequence[Result]) -> list[Result]:
    """Results without further copies of a run: one's own, and the submission made of them, are one."""
    kept: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.source.name):
        copies = kept.setdefault(result.key, [])
        if not any(_is_copy(result, other) for other in copies):
            copies.append(result)
    chosen = {id(result) for copies in kept.values() for result in copies}
    return [result for result in results if id(result) in chosen]


def _is_copy(one: Result, other: Result) -> bool:
    """Whether two results of one key agree. A copy may lack what was withheld; one with other numbers is no copy."""
    shared = one.values.keys() & other.values.keys()
    alike = (_setup(one), one.method_config) == (_setup(other), other.method_config)
    return (alike or one.source != other.source) and all(
        one.values[measure] == other.values[measure] for measure in shared
    )


def _regime(result: Result) -> str:
    suite = f"suite {result.suite}" if result.suite != CORE else ""
    stream = f"{result.requests} requests" if result.requests > 1 else ""
    return ", ".join(part for part in (suite, stream) if part)


def _setup(result: Result) -> str:
    """Digest of everything that two runs must share before they may be compared."""
    parts = [result.dataset_digest, result.task_digest, result.encoder, result.backbone_config, result.sid_config]
    # Nothing is added where nothing is held out, so that these setups keep their names.
    parts += [result.holdout] if result.holdout else []
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _setup_names(firsts: Sequence[Result]) -> list[str]:
    """A name for each of several setups: their encoders where these tell them apart, else a short digest."""
    if len(firsts) == 1:
        return [""]
    encoders = [result.encoder.partition("#")[0] for result in firsts]
    if len(set(encoders)) == len(encoders):
        return encoders
    return [f"setup {_setup(result)[:6]}" for result in firsts]


def _free(result: Result) -> bool:
    return result.ruleset == "default" and (result.method in REFERENCE_ROWS or result.method_config == "{}")


def _block(key: BlockKey, members: Sequence[Result], protocol: StatisticsProtocol, left_out: list[str]) -> Block:
    grouped: dict[tuple[str, str, str], list[Result]] = {}
    for result in members:
        grouped.setdefault((result.method, result.source.name, result.method_config), []).append(result)
    labels = _labels(list(grouped))
    rows = []
    for group, runs in grouped.items():
        method, kept = group[0], _one_version(runs)
        older = len({result.key for result in runs} - {result.key for result in kept.values()})
        if older:
            left_out.append(f"{older} older runs of {method} in {key.title}")
        rows.append(Row(labels[group], method, "reference" if method in protocol.references else "method", kept))
    place = {name: index for index, name in enumerate(protocol.references)}
    rows.sort(key=lambda row: (row.kind != "reference", place.get(row.method, 0), row.label))
    oracle = next((row for row in rows if row.method == protocol.oracle), None)
    return Block(key, tuple(rows), oracle)


def _one_version(runs: Sequence[Result]) -> dict[int, Result]:
    """A result by seed, all from the version of the method that ran last; of repeats the fuller, then the newer."""
    newest = max(runs, key=lambda result: (result.created, result.key)).method_digest

    def order(result: Result) -> tuple[int, str, str]:
        return sum(value is not None for value in result.values.values()), result.created, result.key

    best: dict[int, Result] = {}
    for result in sorted(runs, key=order, reverse=True):
        if result.method_digest == newest:
            best.setdefault(result.seed, result)
    return dict(sorted(best.items()))


def _labels(groups: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], str]:
    """A label for each (method, source, configuration), different for each of a block."""
    out = {}
    for method in dict.fromkeys(method for method, _, _ in groups):
        members = [group for group in groups if group[0] == method]
        configs: list[dict[str, Any]] = [json.loads(config) for _, _, config in members]
        fields = dict.fromkeys(name for config in configs for name in config)
        differing = [name for name in fields if len({json.dumps(config.get(name)) for config in configs}) > 1]
        several = len({source for _, source, _ in members}) > 1
        for group, config in zip(members, configs, strict=True):
            parts = [group[1] or "ours"] if several else []
            parts += [f"{name}={config.get(name)}" for name in differing[:3]]
            parts += [hashlib.blake2b(group[2].encode(), digest_size=3).hexdigest()] if len(differing) > 3 else []
            out[group] = f"{method} ({', '.join(parts)})" if parts else method
    return out
