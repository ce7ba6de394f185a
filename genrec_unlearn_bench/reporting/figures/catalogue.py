"""The kinds of figures: one table of what each needs, reads and says; and drawing those that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.figures.measurements import SPACES, Panels, measured_panels, read_tables
from genrec_unlearn_bench.reporting.figures.model import FLOOR_LABEL, Cast, Figure, FigureRequest, NotDrawn, unmeasured
from genrec_unlearn_bench.reporting.figures.records import draw_ablation, draw_overlap, draw_pareto, panel_figure

__all__ = ["KINDS", "Drawn", "Kind", "Skipped", "draw_all", "find_kind"]


@dataclass(frozen=True)
class Kind:
    """One kind of figure: either from the records of a block, or from the table of a measurement.

    Attributes:
        draw: The figures of a block from its records. Raises NotDrawn.
        panels: Of the measurement that the kind is named after.
        needs, options: What no run of a block has where they cannot be drawn, and the options of ``bench run`` for it.
        caption: Sentences, with ``{block}`` and ``{oracle}``.
    """

    draw: Callable[[Block, FigureRequest], tuple[Figure, ...]] | None = None
    panels: tuple[Panels, ...] = ()
    needs: str = ""
    options: str = ""
    caption: tuple[str, ...] = ()


_BOTH_SIDES = {"forget": "Forget", "retain": "Retain"}
_FROM_ZERO = (0.0, None)


def _stream(column: str, title: str, ylabel: str, metric: str, group: Group) -> Panels:
    return Panels(column, "request", "request", ylabel, metric, group, titles={"": title}, ylim=_FROM_ZERO)


KINDS: Mapping[str, Kind] = {
    "probing": Kind(
        needs="probed layers",
        options="--suite full --measure probing",
        caption=(
            "Linear probes for the concept on {block}: AUROC on users and items that the probe never saw, by layer "
            "and place.",
            f"The dotted line is chance; {FLOOR_LABEL}: the same probe on an untrained model of the same shape.",
        ),
        panels=(
            Panels(
                value="auroc",
                x="layer",
                xlabel="layer",
                ylabel="probe AUROC",
                metric="probing.auroc.{}",
                group=Group.ALL,
                panel="site",
                titles={
                    "prompt": "Prompt: next-item state",
                    "pooled": "Pooled: mean of input",
                    "history": "History: concept items",
                    "embedding": "Embedding: items",
                },
                interval=("auroc_low", "auroc_high"),
                line=0.5,
            ),
        ),
    ),
    "relearning": Kind(
        needs="relearning attacks",
        options="--suite full --measure relearning",
        caption=(
            "Relearning attacks on {block}: forget HR@10 on concept interactions whose users and items the attack "
            "never saw, by steps of fine-tuning.",
            "{oracle} is under the same attack: what it regains is what the attack teaches and not what was left.",
        ),
        panels=(
            Panels(
                value="hr@10",
                x="step",
                xlabel="attack step",
                ylabel="held-out HR@10",
                metric="relearning.hr@10.{}",
                group=Group.FORGET,
                panel="attack",
                titles={
                    "mixed": "20 % concept targets",
                    "forget-1": "1 % of the forget set",
                    "forget-5": "5 % of the forget set",
                    "forget-10": "10 % of the forget set",
                    "forget-100": "All of the forget set",
                    "benign": "Retain data alone",
                },
                interval=("low", "high"),
                space=("space", "served"),
                # The held-out forgotten interactions; ``test`` is the held-out users' future.
                where={"part": "train"},
                steps=True,
                ylim=_FROM_ZERO,
            ),
        ),
    ),
    "membership": Kind(
        needs="membership inference",
        options="--suite full --measure membership",
        caption=(
            "Membership inference on {block}: AUC of telling forgotten interactions from interactions of the same "
            "concept that no model was trained on.",
            "The dotted line is chance.",
        ),
        panels=(
            Panels(
                value="auc",
                x="",
                xlabel="",
                ylabel="AUC",
                metric="membership.auc.{}",
                group=Group.FORGET,
                panel="score",
                titles={"loss": "LOSS", "min-k": "Min-k %", "min-k++": "Min-k %++", "reference": "Calibrated"},
                interval=("auc_low", "auc_high"),
                space=("space", "own"),
                where={"group": Group.FORGET.value},
                line=0.5,
            ),
        ),
    ),
    "forget-quality": Kind(
        needs="truth ratios",
        options="--suite full --measure forget-quality",
        caption=(
            "Truth ratio on {block}: the share of examples below a value, quantiles averaged over seeds. Forgotten is "
            "what lies on {oracle}'s curve.",
        ),
        panels=(
            Panels(
                value="truth_ratio",
                x="quantile",
                xlabel="truth ratio",
                ylabel="share of examples",
                metric="",
                group=Group.ALL,
                panel="group",
                titles=_BOTH_SIDES,
                ylim=(0.0, 1.0),
                distribution=True,
            ),
        ),
    ),
    "quantisation": Kind(
        needs="quantised models",
        options="--suite full --measure quantisation",
        caption=(
            "HR@10 on {block} after rounding weights to the nearest of 8 or 4 bits, one scale an output channel; 32: "
            "as unlearned.",
        ),
        panels=(
            Panels(
                value="value",
                x="scheme",
                xlabel="bits of a weight",
                ylabel="{} HR@10",
                metric="hr@10",
                panel="group",
                titles=_BOTH_SIDES,
                interval=("low", "high"),
                where={"metric": "hr@10"},
                names={"full": "32", "int8": "8", "int4": "4", "nf4": "NF4"},
                ylim=_FROM_ZERO,
            ),
        ),
    ),
    "pareto": Kind(draw=draw_pareto),
    "overlap": Kind(draw=draw_overlap),
    "ablation": Kind(draw=draw_ablation),
    "stream": Kind(
        needs="a stream of requests",
        options="--requests 5",
        caption=(
            "A stream of requests on {block}: the forget set is asked for in parts, each applied to the last one's "
            "model.",
        ),
        panels=(
            _stream("forget_hr@10", "This request", "forget HR@10", "hr@10", Group.FORGET),
            _stream("earlier_hr@10", "Earlier requests", "forget HR@10", "hr@10", Group.FORGET),
            _stream("so_far_hr@10", "All requests so far", "forget HR@10", "hr@10", Group.FORGET),
            _stream("retain_hr@10", "Retained users", "retain HR@10", "hr@10", Group.RETAIN),
            _stream("retain_ndcg@10", "Retained users", "retain NDCG@10", "ndcg@10", Group.RETAIN),
            _stream("share_of_retraining", "Cost so far", "retrainings", "cost.share-of-retraining", Group.ALL),
        ),
    ),
}


@dataclass(frozen=True)
class Skipped:
    """A kind that could not be drawn for a block, with the reason and the run that would give the data."""

    kind: str
    block: str
    reason: str
    hint: str


@dataclass(frozen=True)
class Drawn:
    """The figures of a call."""

    figures: tuple[Figure, ...]
    skipped: tuple[Skipped, ...]


def find_kind(name: str) -> Kind:
    """The kind of that name. Raises UnknownName."""
    if name not in KINDS:
        raise UnknownName("kind", name, KINDS)
    return KINDS[name]


def draw_kind(name: str, block: Block, request: FigureRequest) -> tuple[Figure, ...]:
    """The figures of a kind for a block, more than one where there are many rows.

    Raises NotDrawn, and UnknownName for a kind that is not there.
    """
    kind = find_kind(name)
    if kind.draw is not None:
        return kind.draw(block, request)
    table = read_tables(block, name, request.protocol)
    if table is None:
        raise unmeasured(block, f"{kind.needs} (measurements/{name}.csv)", kind.options)
    cast = Cast.of(block, request)
    caption = tuple(sentence.format(block=block.key.title, oracle=cast.oracle) for sentence in kind.caption)
    out = []
    for ending, labels in cast.parts():
        shown = (*labels, FLOOR_LABEL) if FLOOR_LABEL in set(table["label"]) else labels
        found = [measured_panels(spec, table, shown, cast, request.protocol) for spec in kind.panels]
        panels = tuple(panel for each in found for panel in each)
        if panels:
            out.append(panel_figure(name, block, panels, caption, cast, ending=ending, variants=SPACES))
    return tuple(out)


def draw_all(board: Board, wanted: Sequence[str], request: FigureRequest) -> Drawn:
    """Every kind that was asked for, of every block.

    Args:
        wanted: Kinds; all where none are named. A kind that is named and cannot be drawn for any block is a fault.

    Raises:
        UnknownName: No such kind, or no such field for ablations.
        NotDrawn: A named kind has no data, or nothing could be drawn at all.
    """
    figures: list[Figure] = []
    skipped: list[Skipped] = []
    for name in [kind for kind in KINDS if not wanted or kind in wanted] + [n for n in wanted if n not in KINDS]:
        missing: list[NotDrawn] = []
        before = len(figures)
        for block in board.blocks:
            try:
                figures += draw_kind(name, block, request)
            except NotDrawn as fault:
                missing.append(fault)
                skipped.append(Skipped(name, block.key.title, fault.what, fault.hint or ""))
        if wanted and len(figures) == before:
            raise _nothing(name, missing)
    if not figures:
        raise NotDrawn(
            "none of these results can be drawn:" + "".join(f"\n  - {one.kind}: {one.reason}" for one in skipped),
            hint="name a kind (--kind) to see which run would give its data",
        )
    return Drawn(tuple(figures), tuple(skipped))


def _nothing(name: str, missing: Sequence[NotDrawn]) -> NotDrawn:
    if not missing:
        return NotDrawn(f"nothing of the kind {name!r} was measured on the rows that were asked for")
    reasons = [fault.what for fault in missing[:8]] + [f"… and {len(missing) - 8} more"] * (len(missing) > 8)
    return NotDrawn(f"the kind {name!r} cannot be drawn: " + "; ".join(reasons), hint=missing[0].hint)
