"""``bench submission site``: make the published leaderboard from its folder, or hold what is published against it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from genrec_unlearn_bench.cli.command import Output
from genrec_unlearn_bench.errors import BenchError, UsageError


def site(
    leaderboard: Annotated[Path, Option(help="The leaderboard's folder.", metavar="DIR")] = Path("leaderboard"),
    out: Annotated[Path | None, Option(help="Where the site is written (default: site in it).", metavar="DIR")] = None,
    check: Annotated[bool, Option("--check", help="Write nothing; exit 1 where a byte differs.")] = False,
) -> Output:
    """Make the pages and tables of all published results and submissions.

    The same results give the same bytes on every machine, so whoever doubts a page can make it again.
    """
    from genrec_unlearn_bench.files import atomic_folder
    from genrec_unlearn_bench.reporting.outputs import SITE, differences, site_files
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol
    from genrec_unlearn_bench.reporting.results import load_results
    from genrec_unlearn_bench.submissions.pull import INDEX, site_index
    from genrec_unlearn_bench.submissions.verification import published_sources

    sources = published_sources(leaderboard)
    if not sources:
        raise UsageError(
            f"there is no result below {str(leaderboard)!r}", hint="give the leaderboard's folder (--leaderboard)"
        )
    results = [one for source, folder in sources for one in load_results([folder], source=source).results]
    files = site_files(results, statistics_protocol(), root=leaderboard)
    files[INDEX] = site_index([folder for _, folder in sources], leaderboard)
    place = out or leaderboard / SITE
    counted = {"folder": str(place), "files": len(files), "results": len(results)}
    if check:
        found = differences(files, place)
        if found:
            listing = "".join(f"\n  - {line}" for line in found)
            raise BenchError(
                f"the published site is not what its results make:{listing}",
                where=str(place),
                hint="make it again with `bench submission site` and look at what has changed",
            )
        return Output(counted, [f"{place}: {len(files)} files, as {len(results)} results make them"])
    with atomic_folder(place, "--out", replace=True) as draft:
        for name, content in files.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return Output(counted, [f"{place}: {len(files)} files from {len(results)} results"])
