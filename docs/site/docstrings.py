"""Docstrings of the package as Markdown, for the API reference: see ``extensions`` in mkdocs.yml."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

FIELD = re.compile(r"^([a-z_][\w]*(?:, [a-z_]\w*)*): (?=\S)")
ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


class FieldLists(Extension):
    """Turns ``name: what it is`` lines into lists, and roles such as ``:class:`X``` into code."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """The Markdown of a docstring."""
    lines: list[str] = []
    in_list = False
    for line in ROLE.sub(r"`\1`", text).splitlines():
        starts = FIELD.match(line) is not None and (in_list or not lines or not lines[-1])
        if starts:
            lines.append(FIELD.sub(r"- **\1**: ", line))
        else:
            lines.append(f"    {line.strip()}" if in_list and line.strip() else re.sub(r"::$", ":", line))
        in_list = starts or (in_list and bool(line.strip()))
    return "\n".join(lines)
