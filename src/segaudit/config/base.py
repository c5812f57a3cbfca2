"""Read a TOML file into a checked model; every fault at once, each with its place and a fix."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from segaudit.errors import AuditError, Finding, did_you_mean
from segaudit.files import read_file

MAX_TOML_BYTES = 8 * 1024 * 1024


class Strict(BaseModel):
    """A model that refuses keys it does not know and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path, model: type[Model]) -> Model:
    """Return the file as the model.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE, TOML_TOO_LARGE, TOML_MALFORMED, or one TOML_UNKNOWN_KEY / TOML_VALUE a fault.
    """
    raw = read_file(path, MAX_TOML_BYTES, what="TOML", fix="put long lists into a file of their own.")
    try:
        data = tomllib.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        fact = f"{path} is no valid TOML: {error}."
        raise AuditError(Finding("TOML_MALFORMED", fact, str(path), "mend the line; TOML files are UTF-8.")) from None
    return check(data, model, str(path))


def check(data: Any, model: type[Model], where: str) -> Model:
    """Return data as the model, or raise AuditError with a finding a fault."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise AuditError([_finding(fault, model, where) for fault in error.errors()]) from None


def _finding(fault: Any, model: type[BaseModel], where: str) -> Finding:
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"]).lstrip(".")
    if fault["type"] == "extra_forbidden":
        known = _keys_at(model, fault["loc"][:-1])
        return Finding(
            "TOML_UNKNOWN_KEY",
            f"there is no key '{fault['loc'][-1]}'.",
            f"{where}, {place}",
            did_you_mean(str(fault["loc"][-1]), known) if known else "remove it.",
        )
    # a fault of a whole table says by itself what is wrong; only a single value is shown
    single = isinstance(fault["input"], str | int | float | bool) and fault["type"] != "missing"
    given = f" (given: {str(fault['input'])[:80]!r})" if single else ""
    said = fault["msg"].removeprefix("Value error, ")
    return Finding(
        "TOML_VALUE",
        f"{place}: {said}{given}." if place else f"{said}{given}.",
        f"{where}, {place}" if place else where,
        "see the page on this file in the documentation.",
    )


def _keys_at(model: type[BaseModel], path: tuple[Any, ...]) -> list[str]:
    """Return the keys known at a place, walking through models, lists and tables of models."""
    current: Any = model
    for part in path:
        fields = getattr(current, "model_fields", None)
        if fields is not None and part in fields:
            current = _inner_model(fields[part].annotation)
        # a list index or a free key of a table keeps the inner model
        if current is None:
            return []
    fields = getattr(current, "model_fields", {})
    return [info.alias or name for name, info in fields.items()]


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _inner_model(part)
        if found is not None:
            return found
    return None
