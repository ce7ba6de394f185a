"""Help that fits on one screen: options on one line where they can be, rare ones by name; ``--help-all`` has all."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

RARE = frozenset(
    {
        *("debug", "threads", "encoder", "set_sid", "set_backbone", "set_measure", "measure", "tuned_dir"),
        *("oracle_seeds", "requests", "shadows", "tracker", "tracker_dir", "shared_cache", "cache_dir"),
        *(
            "skip_broken",
            "protocol",
            "standalone",
            "bib",
            "history",
            "user",
            "ids",
            "floor",
            "test_rows",
            "beam",
            "compare",
            "every",
        ),
    }
)
"""Options that ``--help`` only names."""

ALL = "--help-all"
_WIDEST = 22


class Command(TyperCommand):
    """A verb with such a help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ALL in args:
            ctx.meta[ALL] = True
            typer.echo(self.get_help(ctx))
            raise typer.Exit
        found: list[str] = super().parse_args(ctx, args)
        return found

    def format_options(self, ctx: Any, formatter: Any) -> None:
        shown = [param for param in self.get_params(ctx) if not getattr(param, "hidden", False)]
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Rare options": []}
        for param in shown:
            argument = param.param_type_name == "argument"
            section = "Arguments" if argument else "Rare options" if param.name in RARE else "Options"
            sections[section].append(_record(param, ctx))
        rare_ones = [] if ctx.meta.get(ALL) else sections.pop("Rare options")
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=_WIDEST)
        if rare_ones:
            with formatter.section(f"Rare options, explained by {ALL}"):
                formatter.write_text(" ".join(name.partition(" ")[0].rstrip(",") for name, _ in rare_ones))


def _record(param: Any, ctx: Any) -> tuple[str, str]:
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
