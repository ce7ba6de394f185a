"""``bench results compare``: two rows over the seeds that they share; by ``--users``, two checkpoints over users."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from genrec_unlearn_bench.cli import results
from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import UsageError


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
    users: Annotated[bool, Option("--users", help="Compare checkpoints over users, seed by seed.")] = False,
    seed: Annotated[list[int] | None, Option(help="With --users: training seeds (default: all shared).", min=0)] = None,
    skip_broken: results.SkipBroken = False,
) -> Output:
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
    from genrec_unlearn_bench.reporting import checkpoints, comparisons
    from genrec_unlearn_bench.reporting.measure import Measure
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    protocol = statistics_protocol()
    width = beam or protocol.beam
    texts = named(metric) or protocol.primary
    measures = tuple(dict.fromkeys(Measure.parse(text, beam=width) for text in texts))
    found = results.gathered(results_dir, published=published, skip_broken=skip_broken)
    with found.located(first, second):
        board = found.board(protocol, results.selection(task, backbone, None, ruleset, scale, suite))
        rows = comparisons.find_pair(board, first, second)
    compared = tuple(comparisons.compare_rows(*pair, measures, protocol) for pair in rows)
    if users:
        pairs = [
            pair for each in compared for pair in checkpoints.compare_checkpoints(each, protocol, seeds=seed or ())
        ]
        return Output(
            lambda: checkpoints.users_document(pairs, protocol),
            [lambda console: checkpoints.draw_checkpoints(console, pairs, protocol)],
        )
    return Output(
        lambda: comparisons.pairs_document(compared, protocol),
        [lambda console: comparisons.draw_pairs(console, compared, protocol)],
    )
