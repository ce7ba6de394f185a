"""``bench``: registers every verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.cli.command import as_command

ABOUT = "Can a generative recommender forget a brand, a price band, an item or some interactions, and at what cost?"

VERBS = (
    *("run", "tune", "ls", "show"),
    *("data prepare", "data info", "data import", "data export", "data sids"),
    *("method new", "method check"),
    *("grid plan", "grid run", "grid status", "grid collect"),
    *("results compare", "results claims", "results figures", "results examples", "results export", "results pull"),
    "leaderboard",
    *("submission new", "submission publish", "submission verify", "submission reproduce", "submission site"),
    *("cache ls", "cache gc", "cache verify"),
    "doctor",
)
"""In the order of the help. Each is a function in the module named after its group, or after the verb without one."""
_MODULES = {"ls": "show", "submission reproduce": "submission_reproduce", "grid run": "grid_run"}
"""Of verbs for which that is not so."""

GROUPS = {
    "data": "Prepare a dataset, import your own, see what is in one, export a task.",
    "method": "Write a method of your own, and check it.",
    "grid": "Plan, run, watch and collect many cells.",
    "results": "Compare, test claims on, draw, show, export and fetch results.",
    "submission": "Submit results to the leaderboard, check submissions, repeat runs, make the site.",
    "cache": "Look after the store of computed stages.",
}

EXAMPLES = """
bench run --task demo-brand --method tracer
bench run --task steam-price --method retrain-full,filter,tracer --seed 0,1 --data-dir data
bench tune --task demo-brand --method tracer
bench tune --task demo-brand --method tracer,filter --seed 9000 --seed 9001 --fixed fixed.yaml
bench ls
bench show tracer
bench show steam-price --data-dir data
bench data prepare demo
bench data info demo
bench data import my-shop --name my-shop
bench data import reviews --name shop --k-core 5 --split global-time
bench data export --task demo-brand --out demo-brand
bench data sids --task demo-brand
bench method new my-method --out ~/my-methods
bench method check path/to/my_method.py
bench grid plan paper-main
bench grid plan grid.yaml --explain "tiger tracer seed0"
bench grid run smoke
bench grid run paper-main --only '*/tiger/*' --processes 2 --minutes 120 --data-dir data
bench grid status paper-main --failed
bench grid collect paper-main
bench grid collect smoke --out paper
bench results compare tracer npo --published --task industrial-brand --backbone tiger
bench results compare tracer retrain --task industrial-brand --backbone tiger --published --users --seed 0
bench results claims
bench results claims 1 6 12
bench results figures --published --kind pareto --task industrial-brand --width page --out paper/figures
bench results examples --task demo-brand --method tracer,npo --top 5
bench results examples --task demo-brand --method tracer --group retain --out examples.html
bench results export results/demo-brand/tiger/tracer/smoke-seed0-f2b804ea0b --out trec
bench results pull https://example.org/mine.zip
bench leaderboard --layout main --ruleset tuned
bench leaderboard --results-dir results --format latex,md,html --out tables --bib
bench submission new mine --title "Mine" --author "Ada Example | A University" --contact ada@example.org \
--licence MIT --affirm-rules
bench submission new mine --method path/to/mine.py --results-dir results --withhold similarity
bench submission publish results --out leaderboard/results --withhold similarity,influence,log-prob
bench submission verify leaderboard/submissions/mine --write
bench submission reproduce letter-instruments --data-dir data --minutes 10
bench submission reproduce results/demo-brand/tiger/tracer/smoke-seed0-f2b804ea0b
bench submission site --leaderboard leaderboard --check
bench cache ls --cache-dir /shared/cache
bench cache gc --results-dir results
bench cache gc --older-than 30 --yes
bench cache verify
bench doctor
bench doctor --device cuda --run
"""
"""For the end of each verb's help."""


def _epilog(words: str) -> str:
    """Examples; the first line keeps their lines from being wrapped."""
    lines = [line for line in EXAMPLES.strip().splitlines() if f"{line} ".startswith(f"bench {words} ")]
    return "\n".join(["\b", "Examples:", *(f"  $ {line}" for line in lines[:2])])


class Bench(TyperGroup):
    """Lists the verbs in the table's order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys(words.split()[0] for words in VERBS))


RARE = {
    *("debug", "threads", "encoder", "set_sid", "set_backbone", "set_measure", "measure", "tuned_dir"),
    *("oracle_seeds", "sasrec", "requests", "shadows", "tensorboard", "cache_dir", "skip_broken"),
    *("protocol", "standalone", "bib", "user", "ids", "beam", "compare"),
}
"""Options that ``--help`` only names."""

ALL = "--help-all"


class Command(TyperCommand):
    """A verb with such a help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ALL in args:
            ctx.meta[ALL] = True
            typer.echo(self.get_help(ctx))
            raise typer.Exit
        for several in [getattr(param, "multiple", False) for param in self.params if param.name == "seed"]:
            args = _one_seed_each(args, several=several)
        found: list[str] = super().parse_args(ctx, args)
        return found

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Rare options": []}
        for param in self.get_params(ctx):
            argument = param.param_type_name == "argument"
            section = "Arguments" if argument else "Rare options" if param.name in RARE else "Options"
            sections[section].append(_record(param))
        rare = [] if ctx.meta.get(ALL) else sections.pop("Rare options")
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=22)
        if rare:
            with formatter.section(f"Rare options, explained by {ALL}"):
                formatter.write_text(" ".join(name.partition(" ")[0] for name, _ in rare))


def _one_seed_each(args: Iterable[str], *, several: bool) -> list[str]:
    """``--seed 0,1`` as ``--seed 0 --seed 1``; other options take their commas themselves. Raises BadParameter."""
    syntax = "whole numbers from 0 up, several with commas: --seed 0,1,2,3,4" if several else "a whole number from 0 up"
    out: list[str] = []
    for word in args:
        if out[-1:] == ["--seed"] or word.startswith("--seed="):
            for seed in word.removeprefix("--seed=").replace(",", " " if several else ",").split():
                if not seed.isdecimal():
                    raise typer.BadParameter(f"{seed!r} is no seed; {syntax}", param_hint="'--seed'")
            out += word.replace(",", " --seed " if word[:1] != "-" else " --seed=").split()
        else:
            out.append(word)
    return out


def _record(param: Any) -> tuple[str, str]:
    """``--seed INT`` and what it is, with its default."""
    if param.param_type_name == "argument":
        name = param.metavar or param.name.upper()
        return (name if param.required else f"[{name}]"), param.help or ""
    text, flag = param.help or "", bool(param.is_flag)
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", getattr(param, "type", ""))
    metavar = "" if flag else f" {param.metavar or ('INT' if 'int' in str(kind).lower() else 'TEXT')}"
    default = param.default
    if isinstance(param.show_default, str):
        text += f" (default: {param.show_default})"
    elif param.required:
        text += " (required)"
    elif not flag and default not in (None, "", [], ()) and not callable(default) and "default:" not in text:
        text += f" (default: {', '.join(map(str, default)) if isinstance(default, list | tuple) else default})"
    return f"{'/'.join([*param.opts, *param.secondary_opts])}{metavar}", text


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


app = typer.Typer(
    name="bench",
    cls=Bench,
    help=ABOUT,
    epilog=_epilog("run"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def bench(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Hold the options of ``bench`` itself."""


_GROUPS = {name: typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None) for name, text in GROUPS.items()}
for _words in VERBS:
    _group, _, _name = _words.rpartition(" ")
    _module = _MODULES.get(_words, _group or _name)
    _function = getattr(import_module(f"genrec_unlearn_bench.cli.{_module}"), "import_" if _name == "import" else _name)
    (_GROUPS[_group] if _group else app).command(_name, cls=Command, epilog=_epilog(_words))(as_command(_function))
for _name, _typer in _GROUPS.items():
    app.add_typer(_typer, name=_name, epilog=_epilog(_name))


def run() -> None:
    """Start the command line; the console script is ``start.run``, which handles interrupts first."""
    # OpenMP's threads wait by spinning, which on a machine with other work slows small models down by a factor of ten
    # (100 steps of the demo's T5 on two threads: 66 s spinning, 9.5 s sleeping). Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    app()
