"""``bench cache``: what the store holds, what of it may go, whether it is whole, and carrying it to new keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, DataDir, Debug, examples
from genrec_unlearn_bench.errors import UsageError

__all__ = ["app"]

app = typer.Typer(
    help="Look after the store of computed stages.",
    epilog=examples("bench cache ls", "bench cache gc --keep-results results --yes"),
    no_args_is_help=True,
)

Kinds = Annotated[
    list[str] | None, typer.Option("--stage", help="Kind of stage, as `bench cache ls` names it; repeat it.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it; without, it is only said what would be done.")]


@app.command("ls", epilog=examples("bench cache ls", "bench cache ls --cache-dir /shared/cache --json"))
@handled
def ls(cache_dir: CacheDir = None, as_json: AsJson = False, debug: Debug = False) -> None:
    """List what the store holds, by kind of stage and backbone: how many, how large, how old, when last read."""
    from genrec_unlearn_bench.cli.cache_table import listing_table
    from genrec_unlearn_bench.store.listing import list_store

    found = list_store(_root(cache_dir))
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    stdout().print(listing_table(found))


@app.command(
    "gc",
    epilog=examples("bench cache gc --keep-results results", "bench cache gc --older-than 30d --max-size 20G --yes"),
)
@handled
def gc(
    older_than: Annotated[
        str | None, typer.Option(help="Stages not read for so long may go: 12h, 30d, 8w.", show_default=False)
    ] = None,
    keep_results: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep what the results of a folder, or of the cells of a grid, stand on; alone, all else may go.",
            metavar="DIR|GRID",
        ),
    ] = None,
    results_dir: Annotated[
        Path, typer.Option(help="Where the results of a grid named above lie.", metavar="DIR")
    ] = Path("results"),
    max_size: Annotated[
        str | None,
        typer.Option(help="Let stages go, those read longest ago first, until so much is left: 500M, 20G."),
    ] = None,
    unreachable: Annotated[
        bool, typer.Option("--unreachable", help="Stages that today's code asks for no more may go.")
    ] = False,
    recent: Annotated[bool, typer.Option("--recent", help="Also stages that were read within the last day.")] = False,
    yes: Yes = False,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Free room: leftovers of killed processes, and what a policy gives up. Says what going back would cost.

    Nothing that a process has locked goes, and nothing that was read within the last day unless --recent is given.
    Without --yes nothing is removed.
    """
    from genrec_unlearn_bench.cli.cache_table import collection_lines
    from genrec_unlearn_bench.store.amounts import bytes_of, seconds_of
    from genrec_unlearn_bench.store.collection import Policy
    from genrec_unlearn_bench.store.sweeping import sweep_store

    policy = Policy(
        older_than=seconds_of(older_than, where="--older-than") if older_than else None,
        max_size=bytes_of(max_size, where="--max-size") if max_size else None,
        keep=_kept(keep_results, results_dir) if keep_results else None,
        unreachable=unreachable,
        **({"spare": 0.0} if recent else {}),
    )
    with progressing() as progress:
        swept = sweep_store(_root(cache_dir), policy, progress, remove=yes)
    if as_json:
        print_json(swept.model_dump(mode="json"))
        return
    for line in collection_lines(swept):
        print(line)


@app.command("verify", epilog=examples("bench cache verify", "bench cache verify --stage original --json"))
@handled
def verify(
    stage: Kinds = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave damaged stages where they are.")] = False,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read every byte of the store and hold it against its digest; damaged stages are moved to quarantine/.

    Exit code 1 where something was damaged: it is computed again when it is next asked for.
    """
    from genrec_unlearn_bench.store.verification import verify_store

    with progressing() as progress:
        found = verify_store(_root(cache_dir), progress, only=stage or (), set_aside=not keep)
    if as_json:
        print_json({"stages": found.stages, "damaged": [vars(one) for one in found.damaged]})
    else:
        for one in found.damaged:
            end = "moved to quarantine" if one.moved else "still there"
            print(f"damaged: {one.name} {one.key[:16]}: {one.what} ({end})")
        print(f"{found.stages} stages, {len(found.damaged)} damaged")
    if found.damaged:
        raise typer.Exit(1)


@app.command("migrate", epilog=examples("bench cache migrate", "bench cache migrate --source ../older-checkout"))
@handled
def migrate(
    source: Annotated[
        Path | None,
        typer.Option(help="Checkout of the code that made the stages, if it is not today's.", metavar="DIR"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be carried.")] = False,
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Carry stages of an older key version to the keys that runs ask for now. Nothing is computed, nothing is lost.

    A stage is carried where its code is still the same; the files are shared by both keys (hard links), so that it
    takes no room. May be given again at any time, also after it was killed.
    """
    from genrec_unlearn_bench.store.migration import migrate as carry

    root = _root(cache_dir)
    if source is not None and not (source / "genrec_unlearn_bench").is_dir():
        raise UsageError("that is no checkout of this suite", where=str(source), hint="give its top folder")
    with progressing() as progress:
        found = carry(root, progress, source=source, dry_run=dry_run)
    if as_json:
        left = [{"stage": name, "reason": reason, "stages": n} for (name, reason), n in sorted(found.left.items())]
        print_json({"counts": dict(found.counts), "left": left})
        return
    if not found.counts:
        print("there is no stage of an older key version")
    for how, number in sorted(found.counts.items()):
        print(f"{how}: {number}")
    for (name, reason), number in sorted(found.left.items()):
        print(f"  left: {number} {name}: {reason}")


@app.command(
    "prove",
    epilog=examples(
        "bench cache prove --against before --results-dir results-before",
        "bench cache prove --against before --results-dir results-before --write",
    ),
)
@handled
def prove(
    against: Annotated[Path, typer.Option(help="The cache that the code before the change has filled.", metavar="DIR")],
    results_dir: Annotated[
        list[Path], typer.Option(help="Results that were made with it; each cell is run again.", metavar="DIR")
    ],
    write: Annotated[bool, typer.Option("--write", help="Enter what was proven in the ledger of equal code.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show that a refactor changes no outcome: compute cells again with today's code and compare every stage.

    Exit code 1 where a stage came out differently.
    """
    from genrec_unlearn_bench.files import atomic_text
    from genrec_unlearn_bench.store.equal_code import LEDGER, ledger_text
    from genrec_unlearn_bench.store.proof import ledger_with, proven
    from genrec_unlearn_bench.store.proof import prove as compare

    with progressing() as progress:
        compared = compare(against, results_dir, progress, data_dir=data_dir)
    found = proven(compared)
    if write and found:
        atomic_text(LEDGER, ledger_text(ledger_with(found)), "the installed package")
    if as_json:
        print_json({"compared": [vars(one) for one in compared], "proven": [one.model_dump() for one in found]})
    else:
        for one in compared:
            verdict = {True: "the same", False: "DIFFERENT", None: f"not comparable: {one.reason}"}[one.same]
            print(f"{one.stage} of {one.cell}: {verdict}{'' if one.now != one.before else ', by the same code'}")
        where = f"entered in {LEDGER.name}" if write else "enter them with --write"
        print(f"{len(found)} listings of code are proven equal to older ones" + (f"; {where}" if found else ""))
    if any(one.same is False for one in compared):
        raise typer.Exit(1)


@app.command("share", epilog=examples("bench cache share /shared/cache", "bench cache share ~/group/cache"))
@handled
def share(
    folder: Annotated[Path, typer.Argument(help="Root of the store; made if it is not there.")], debug: Debug = False
) -> None:
    """Let the users of a folder's group fill one store: what any of them stores, all may read, repair and collect."""
    from genrec_unlearn_bench.store.sharing import MARKER
    from genrec_unlearn_bench.store.sharing import share as open_to_group

    open_to_group(folder)
    print(f"{folder / MARKER}: users of the group {folder.group()!r} share this store (--cache-dir {folder})")


def _root(cache_dir: Path | None) -> Path:
    from genrec_unlearn_bench.store.store import default_cache

    root = cache_dir or default_cache()
    if not root.is_dir():
        raise UsageError("there is no cache", where=str(root), hint="run something first, or name it with --cache-dir")
    return root


def _kept(places: list[str], results_dir: Path) -> frozenset[str]:
    from genrec_unlearn_bench.store.wanted import keys_of_grid, keys_of_results

    keys: frozenset[str] = frozenset()
    for place in places:
        folder = Path(place)
        try:
            keys |= keys_of_results([folder]) if folder.is_dir() else keys_of_grid(place, results_dir)
        except UsageError as fault:
            raise UsageError(
                f"nothing can be kept for {place!r}: {fault.what}", where=fault.where, hint=fault.hint
            ) from fault
    return keys
