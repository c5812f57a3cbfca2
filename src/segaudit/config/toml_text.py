"""Write tables as TOML that reads back as the same tables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_WIDTH = 100


def toml_text(data: Mapping[str, Any]) -> str:
    r"""Return the table as TOML 1.0; `tomllib.loads` gives the same table back.

    Values stand before tables, else the order is kept. A list of tables is written as [[...]], a long list one item a
    line. Characters that do not show (control, direction, unusual blanks) are escaped, so that a reader sees them.

    Parameters
    ----------
    data : mapping of str to value
        Values are str, bool, int, float (infinity and NaN, too), lists and tables of these. TOML knows no null: leave
        the key out.

    Raises
    ------
    TypeError
        A key is no text, or a value is of another kind.
    ValueError
        A text is no Unicode text: it holds a lone surrogate.

    Examples
    --------
    >>> print(toml_text({"labels": {"vb": 1, "lungs": [3, 4]}, "name": 'the "spine"'}), end="")
    name = "the \"spine\""
    <BLANKLINE>
    [labels]
    vb = 1
    lungs = [3, 4]
    """
    return "\n".join(_lines(data, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {name: value for name, value in table.items() if _is_table(value) or _is_tables(value)}
    for name, value in table.items():
        if name not in inner:
            yield _assigned(name, value)
    for name, value in inner.items():
        below = (*path, name)
        header = ".".join(map(_key, below))
        if _is_tables(value):
            for one in value:
                yield f"\n[[{header}]]"
                yield from _lines(one, below)
            continue
        # a table of tables alone needs no header of its own
        if not value or not all(_is_table(one) or _is_tables(one) for one in value.values()):
            yield f"\n[{header}]"
        yield from _lines(value, below)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _is_tables(value: Any) -> bool:
    return _is_list(value) and bool(value) and all(_is_table(one) for one in value)


def _assigned(name: str, value: Any) -> str:
    line = f"{_key(name)} = {_value(value)}"
    if len(line) <= _WIDTH or not _is_list(value):
        return line
    return "\n".join([f"{_key(name)} = [", *(f"    {_value(one)}," for one in value), "]"])


def _key(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a table is a text, not {name!r}")
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):  # before int, which it is, too
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float.__repr__(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items()) + "}"
    if _is_list(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no value for {value!r}")


def _quoted(text: str) -> str:
    return '"' + "".join(map(_letter, text)) + '"'


def _letter(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    if letter.isprintable():
        return letter
    point = ord(letter)
    if 0xD800 <= point <= 0xDFFF:
        raise ValueError(f"a text holds a lone surrogate (U+{point:04X}), which is no Unicode text")
    return f"\\u{point:04X}" if point <= 0xFFFF else f"\\U{point:08X}"
