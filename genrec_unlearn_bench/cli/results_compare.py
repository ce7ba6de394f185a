"""``bench compare``: two rows over the seeds that they share; by ``--users``, two checkpoints over the same users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import options, results
from genrec_unlearn_bench.cli.console import handled, print_json, stdout
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import UsageError

if TYPE_CHECKING:
    from genrec_unlearn_bench.reporting.compare_rows import PairedBlock
    from genrec_unlearn_bench.reporting.measure import Measure
    from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol

__all__ = ["compare"]


@handled
def compare(
    first: Annotated[str, Argument(help="Method, or the label of a row as a table shows it.", metavar="A")],
    second: Annotated[str, Argument(help="The row to compare it with.", metavar="B")],
    metric: results.Metrics = None,
    results_dir: results.ResultsDirs = None,
    published: results.Published = False,
    task: results.Tasks = None,
    backbone: results.Backbones = None,
    ruleset: results.Rulesets = None,
    scale: results.Scales = None,
    suite: results.Suites = None,
    beam: results.Beam = None,
    users: Annotated[
        bool, Option("--users", help="Compare the checkpoints of each seed over users: no claim about methods.")
    ] = False,
    seed: Annotated[
        list[int] | None, Option(help="With --users: training seeds to look at (default: all shared).", min=0)
    ] = None,
    skip_broken: results.SkipBroken = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Compare two methods: paired over training seeds, corrected over the measures, block by block.

    The measures are the protocol's primary ones unless --metric names others; they are the family that Holm's
    correction is over. Methods that a table's marks are about are compared in the table's own families
    (bench leaderboard).
    """
    if seed and not users:
        raise UsageError(
            "--seed chooses checkpoints, and methods are compared over all seeds that they share",
            hint="leave it out, or add --users",
        )
    from genrec_unlearn_bench.reporting import comparisons
    from genrec_unlearn_bench.reporting.compare_rows import compare_rows, find_pair
    from genrec_unlearn_bench.reporting.measure import Measure
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.selection import selected_board

    protocol = statistics_protocol()
    width = beam or protocol.beam
    texts = named(metric) or protocol.primary
    measures = tuple(dict.fromkeys(Measure.parse(text, beam=width) for text in texts))
    found = results.gathered(results_dir, published=published, skip_broken=skip_broken)
    wanted = results.selection(task, backbone, None, ruleset, scale, suite)
    board = found.with_faults(selected_board(found.results, protocol, wanted))
    blocks = find_pair(board, first, second)
    compared = tuple(compare_rows(block, first, second, measures, protocol) for block in blocks)
    if users:
        _show_checkpoints(compared, measures, protocol, seed or (), as_json=as_json)
    elif as_json:
        print_json(comparisons.pairs_document(compared, protocol))
    else:
        comparisons.draw_pairs(stdout(), compared, protocol)


def _show_checkpoints(
    compared: Sequence[PairedBlock],
    measures: Sequence[Measure],
    protocol: StatisticsProtocol,
    seeds: Sequence[int],
    *,
    as_json: bool,
) -> None:
    from genrec_unlearn_bench.reporting.compare_users import compare_checkpoints
    from genrec_unlearn_bench.reporting.comparisons import draw_checkpoints, users_document

    found = tuple(
        (each.block.key, compare_checkpoints(each.block, each.first, each.second, measures, protocol, seeds=seeds))
        for each in compared
    )
    if as_json:
        print_json(users_document(found, protocol))
    else:
        draw_checkpoints(stdout(), found, protocol)
