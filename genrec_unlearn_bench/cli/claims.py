"""``bench claims``: the claims of TRACER's paper, tested against the records at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Console
from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, first_lines, sheet
from genrec_unlearn_bench.errors import UnknownName, printable
from genrec_unlearn_bench.files import atomic_text
from genrec_unlearn_bench.progress_display import print_line

Numbers = Annotated[list[int] | None, Argument(help="Claims to show in full; all in brief where none is given.")]
Own = Annotated[
    list[Path] | None,
    Option("--results-dir", help="Folders of your results (default: results); the suite's are added.", metavar="DIR"),
]


def claims(
    number: Numbers = None,
    results_dir: Own = None,
    out: Annotated[Path | None, Option(help="Markdown file to write, with everything.", metavar="FILE")] = None,
    skip_broken: options.SkipBroken = False,
) -> Output:
    """Test the claims of TRACER's paper on one's own results and the suite's: holds, does not hold, cannot be told.

    Every verdict follows from records by the rule that stands beside the claim, so that a new record can change it.
    """
    from genrec_unlearn_bench.reporting import claim_report as report
    from genrec_unlearn_bench.reporting.claims import paper_claims
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.submissions.result_set import load_every_protocol

    content, protocol = paper_claims(), statistics_protocol()
    known = {claim.number: claim for claim in content.claims}
    for wanted in number or ():
        if wanted not in known:
            raise UnknownName("claim", str(wanted), map(str, known))
    found = load_every_protocol(results_dir or (), skip_broken=skip_broken)
    for line in first_lines([f"left out: {fault}" for part in found for fault in part.faults]):
        print_line(line, stderr=True)
    blocks = report.find_blocks([part.results for part in found], protocol)
    chosen = [known[wanted] for wanted in dict.fromkeys(number)] if number else content.claims
    tested = [report.check_claim(claim, blocks, content, protocol) for claim in chosen]
    document = report.claims_document(tested, protocol)
    if out is not None:
        atomic_text(out, report.claims_markdown(tested, protocol), "--out")
        return Output(document, [str(out)])

    def in_full(console: Console) -> None:
        for each in tested:
            title = f"{each.claim.number}. {each.claim.title}: {each.verdict.value}"
            for line in "\n\n".join([title, *report.section(each), ""]).split("\n"):
                # A command is copied, so that it is never broken.
                command = line.lstrip().startswith("`")
                console.print(printable(line), markup=False, highlight=False, soft_wrap=command)

    if number:
        return Output(document, [in_full])
    rows = [[str(each.claim.number), each.claim.title, each.verdict.value, each.reason] for each in tested]
    more = "The paper's words, conditions, numbers and what is missing: bench claims 1, or all with --out claims.md."
    last = f"{report.how_text(tested, protocol)}\n\n{more}"
    table = sheet(rows, ["", "claim", "verdict", "why"])
    return Output(document, [table, lambda console: console.print(last, highlight=False)])
