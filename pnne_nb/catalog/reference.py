"""Writes the reference page of all node types: ``python -m pnne_nb.catalog.reference docs/nodes.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from pnne_nb.catalog import specs
from pnne_nb.graph.schema.property_types import describe
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property, Required
from pnne_nb.graph.schema.structural import CALL_PROPERTIES, MODULE_PROPERTIES, STRUCTURAL

PAGE = Path("docs/nodes.md")
"""Where the page lies, from the root of the project."""

COMMAND = f"python -m pnne_nb.catalog.reference {PAGE}"


def page(types: Iterable[NodeSpec]) -> str:
    """Return the reference page of some node types, as Markdown."""
    by_category: dict[str, list[NodeSpec]] = {}
    for spec in types:
        by_category.setdefault(spec.category, []).append(spec)
    return _head(by_category) + "\n".join(line for item in by_category.items() for line in _section(*item)) + "\n"


def version() -> str:
    """Return the version of torch that the page describes, without the build, e.g. ``"2.13.0"``."""
    return torch.__version__.partition("+")[0]


def _head(by_category: dict[str, list[NodeSpec]]) -> str:
    count = sum(map(len, by_category.values()))
    common = "\n".join(f"- `{prop.name}`: {_escaped(prop.doc)}" for prop in MODULE_PROPERTIES)
    contents = "\n".join(
        f"- [{category}](#{category.lower().replace(' ', '-')}) ({len(members)})"
        for category, members in by_category.items()
    )
    return f"""# Node types

All {count} types, as the catalogue reads them from torch {version()}. Written by `{COMMAND}`; do not edit.

*Inputs* that may stay unconnected have a question mark; those that take any number of edges have `…`. An \
argument of the call that is no input here can still be wired. *Outputs* in parentheses exist only while the \
property that is named differs from its default.

Every node that compiles to a submodule, nested graphs included, also has:

{common}

Functions and methods have {" and ".join(f"`{prop.name}`" for prop in CALL_PROPERTIES)} too.

{contents}
"""


def _section(category: str, members: list[NodeSpec]) -> Iterator[str]:
    yield ""
    yield f"## {category}"
    for spec in members:
        yield ""
        yield f"### {spec.type}"
        yield ""
        yield _escaped(spec.doc) + (f" [torch]({spec.url})" if spec.url else "")
        yield ""
        if spec.inputs:
            yield f"- Inputs: {', '.join(map(_input, spec.inputs))}"
        if spec.outputs:
            yield f"- Outputs: {', '.join(map(_output, spec.outputs))}"
        shown = [prop for prop in spec.properties if prop not in MODULE_PROPERTIES]
        if shown:
            yield ""
            yield "| Property | Value | Default | |"
            yield "|---|---|---|---|"
            yield from map(_row, shown)


def _input(port: Port) -> str:
    kind = "" if port.kind == "tensor" else f" ({port.kind})"
    return f"`{port.name}{'…' if port.variadic else ''}`{'?' if port.optional else ''}{kind}"


def _output(port: Port) -> str:
    kind = "" if port.kind == "tensor" else f" ({port.kind})"
    return f"(`{port.name}`{kind}, with `{port.when}`)" if port.when else f"`{port.name}`{kind}"


def _row(prop: Property) -> str:
    default = "" if isinstance(prop.default, Required) else f"`{prop.default!r}`"
    return f"| `{prop.name}` | {_escaped(describe(prop.type))} | {default} | {_escaped(prop.doc)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def main(arguments: list[str]) -> None:
    """Write the page to the path that is given, or else print it."""
    text = page([*STRUCTURAL, *specs()])
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
