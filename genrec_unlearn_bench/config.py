"""Strict configuration: unknown keys and wrong values are reported all at once, with the nearest known key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError
from yaml.constructor import ConstructorError

from genrec_unlearn_bench.errors import BenchError, ConfigError, UnknownName, UsageError

MESSAGE_ONLY = "message"
"""Type of faults whose message says all, as validators raise them (``validation_error``)."""


class StrictModel(BaseModel):
    """Base of everything that crosses a file or a process: frozen, and closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


M = TypeVar("M", bound=BaseModel)


def parse(model: type[M], content: Mapping[str, Any], *, where: str, context: object = None) -> M:
    """Validate ``content`` as ``model``; raises ConfigError listing every fault at once.

    Args:
        context: For the model's validators.
    """
    try:
        found = model.model_validate(dict(content), context=context)
    except ValidationError as fault:
        entries = fault.errors()
        # A list that is too short without its faulty entries is no second fault.
        within = [entry["loc"][:-1] for entry in entries]
        said = [entry for entry in entries if entry["type"] != "too_short" or entry["loc"] not in within]
        raise ConfigError([_sentence(model, entry) for entry in said], where=where) from None
    if faults := list(_truths_as_numbers(content, found)):
        raise ConfigError(faults, where=where)
    return found


def _truths_as_numbers(content: Mapping[str, Any], found: BaseModel, above: str = "") -> Iterator[str]:
    """Faults for each true or false that pydantic took for 1 or 0."""
    for name, value in content.items():
        taken = getattr(found, name, None)
        if isinstance(value, Mapping) and isinstance(taken, BaseModel):
            yield from _truths_as_numbers(value, taken, f"{above}{name}.")
        elif isinstance(value, bool) and type(taken) in (int, float):
            yield f"{above}{name}: a number is expected (got {value})"


def read_json(model: type[M], path: Path) -> M | None:
    """A JSON file as ``model``; None where it cannot be read or is something else."""
    with suppress(OSError, ValidationError):
        return model.model_validate_json(path.read_bytes())
    return None


def first_fault(fault: ValidationError) -> str:
    """Where pydantic's first fault is, and what."""
    first = fault.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


def validation_error(fault: str | BenchError) -> PydanticCustomError:
    """A fault for a validator to raise."""
    text = fault if isinstance(fault, str) else "; ".join(filter(None, (fault.what, fault.hint)))
    return PydanticCustomError(MESSAGE_ONLY, "{text}", {"text": text})


def parse_yaml(model: type[M], text: str, *, where: str) -> M:
    """Read a YAML mapping as ``model``; raises ConfigError with every fault at once."""
    try:
        content = plain_yaml(text)
    except yaml.YAMLError as fault:
        raise ConfigError([f"no valid YAML: {fault}"], where=where) from None
    if not isinstance(content, dict):
        raise ConfigError([f"a mapping is expected, not {type(content).__name__}"], where=where)
    return parse(model, {str(key): value for key, value in content.items()}, where=where)


def named(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Names of an option that may be repeated or hold commas, each once; none for None."""
    parts = (part.strip() for text in texts or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def several(values: Any) -> list[Any]:
    """One value, or all of a list, a range, an array. Raises UsageError for what is neither, a mapping or bytes."""
    if isinstance(values, Mapping | bytes):
        raise UsageError(f"one value or a list is expected, not {type(values).__name__} {values!r:.60}")
    return list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]


def one_of(kind: str, name: str, known: Iterable[str]) -> str:
    """The name, if it is one of the known ones. Raises UnknownName."""
    known = tuple(known)
    if name not in known:
        raise UnknownName(kind, name, known)
    return name


def overrides(pairs: Sequence[str], *, where: str = "--set") -> dict[str, Any]:
    """``["lr=1e-4", "mask=off"]`` as a mapping; values are YAML 1.2, or a text where they are no YAML."""
    out: dict[str, Any] = {}
    faults = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            faults.append(f"{pair!r} is not of the form key=value")
            continue
        try:
            out[key] = plain_yaml(value, Yaml12Loader)
        except yaml.YAMLError:
            out[key] = value
        if not _is_finite(out[key]):
            faults.append(f"{key}: {value} is not a finite number")
    if faults:
        raise ConfigError(faults, where=where)
    return out


_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plain_yaml(text: str, kind: Any = _SAFE) -> Any:
    """The one document in ``text`` as plain values; libyaml reads all tasks in a tenth of PyYAML's own time.

    Raises yaml.YAMLError.
    """
    loader = kind(text)
    try:
        return loader.get_single_data()
    except RecursionError:
        raise yaml.YAMLError("nested too deep") from None
    except ValueError as fault:  # A thirteenth month, base64 that is none.
        raise yaml.YAMLError(str(fault)) from None
    finally:
        loader.dispose()


_SCALARS: dict[str, tuple[str, Any]] = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}


class Yaml12Loader(yaml.SafeLoader):
    """Scalars by YAML 1.2's core schema. YAML 1.1, which most Python libraries implement, would read the seeds ``1:5``
    as 65 (a number to the base 60), the value ``off`` as false and ``1e-4`` as a string."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; PyYAML alone would take the last of two equal keys."""
        seen: set[str] = set()
        for name, mark in [(str(key.value), key.start_mark) for key, _ in node.value]:
            if name in seen:
                raise ConstructorError(None, None, f"the key {name!r} stands twice", mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


for _tag, (_pattern, _first) in _SCALARS.items():
    Yaml12Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))
Yaml12Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
Yaml12Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))


def _is_finite(value: Any) -> bool:
    """Whether no part of a value is NaN or infinite, also as a text that a number's field would accept."""
    if isinstance(value, dict | list):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    text = str(value).strip().lower().lstrip("+-")
    return text not in ("inf", "infinity", "nan") and not (isinstance(value, float) and not math.isfinite(value))


def _sentence(model: type[BaseModel], entry: Any) -> str:
    place = ".".join(str(part) for part in entry["loc"])
    if entry["type"] == "extra_forbidden":
        known = _known_keys([model], entry["loc"][:-1])
        near = difflib.get_close_matches(str(entry["loc"][-1]), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known) or 'none'}"
        return f"{place}: unknown key{hint}"
    message = str(entry.get("ctx", {}).get("error", entry["msg"]))
    pattern = re.sub(r"[])]\+|[Aa]-[Zz]|0-9", "", whole := str(entry.get("ctx", {}).get("pattern", "")))
    if (first := re.match(r"\^\[[Aa]-[Zz][^]]*", whole)) and " " not in whole:
        known_signs = {"_": "underscores", ".": "dots", "+": "plus signs", "-": "hyphens"}
        signs = [word for sign, word in known_signs.items() if sign in pattern]
        words = ["letters" if "A-Z" in whole else "lower-case letters", "digits", *signs]
        start = "a letter or digit" if "0-9" in first[0] else "a letter"
        message = f"use {', '.join(words[:-1])} and {words[-1]} only, beginning with {start}"
    if entry["type"] in (MESSAGE_ONLY, "missing") or not place:
        return f"{place}: {message}" if place else message
    try:
        text = repr(entry.get("input"))
    except RecursionError:
        text = "something nested too deep"
    return f"{place}: {message} (got {text if len(text) <= 500 else f'{text[:500]}…'})"


def _known_keys(models: list[type[BaseModel]], place: tuple[int | str, ...]) -> list[str]:
    """Keys that are known at a place below some models."""
    for part in map(str, place):
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        # What is no field is a place in a list, or the tag of one of several models.
        tagged = [one for one in models if any(part in get_args(f.annotation) for f in one.model_fields.values())]
        models = [found for field in fields for found in _models(field.annotation)] or tagged or models
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models(part)]
