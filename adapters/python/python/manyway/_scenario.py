"""Scenarios as files, texts and dicts, and assignments to their keys."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tomli_w

#: A file's name, the text of one (it has a line break), or a dict with the same keys.
Scenario = str | os.PathLike[str] | Mapping[str, Any]
#: Assignments to keys: a dict, or texts ``"key=value"`` as of ``--set``.
Assignments = Mapping[str, Any] | Iterable[str]

#: Keys whose values are any text.
_FREE_TEXT = {"name", "about", "trace"}

#: What errors call a scenario that has no file.
NAME = "<scenario>"


@dataclass(frozen=True)
class Source:
    """Where a scenario is from."""

    file: str
    text: str | None
    assignments: list[str]


def source(
    scenario: Scenario, assignments: Assignments | None, base: str | os.PathLike[str] | None
) -> Source:
    """Describe a scenario to the native part."""
    texts = _assignments(assignments)
    if isinstance(scenario, Mapping):
        text: str | None = to_toml(scenario)
    elif isinstance(scenario, str) and "\n" in scenario:
        text = scenario
    else:
        if base is not None:
            raise ValueError("base is for scenarios without a file: a file's folder is its own")
        return Source(os.fspath(scenario), None, texts)
    return Source(os.path.join(base or "", NAME), text, texts)


def to_toml(scenario: Mapping[str, Any]) -> str:
    """Write a scenario that is a dict as the TOML of a scenario file.

    Errors of such a scenario tell lines of this text.
    """
    return tomli_w.dumps(_plain(scenario, ""))


def _assignments(given: Assignments | None) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str):
        raise TypeError('set takes a dict, or a list of texts such as ["law=balia"]')
    if not isinstance(given, Mapping):
        return [str(text) for text in given]
    return [f"{key}={_value(value, key)}" for key, value in given.items()]


def _value(value: Any, key: str) -> str:
    # A text that stands alone needs no quotes, unless it may be anything, a number too.
    bare = isinstance(value, str) and key.rsplit(".", 1)[-1] not in _FREE_TEXT
    return str(value) if bare else _inline(_plain(value, key))


def _inline(value: Any) -> str:
    """Write a value as TOML in one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, dict):
        parts = (f"{json.dumps(key)} = {_inline(part)}" for key, part in value.items())
        return f"{{ {', '.join(parts)} }}"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").strip()


def _plain(value: Any, key: str) -> Any:
    """Turn what NumPy and pathlib have into what TOML has."""
    if isinstance(value, Mapping):
        inner = f"{key}." if key else ""
        return {str(name): _plain(part, f"{inner}{name}") for name, part in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part, key) for part in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{key}: a scenario can't hold {value!r}: give text, a number or a list")
