"""How the tools that run a module once take its arguments."""

from __future__ import annotations


def as_arguments(args: object) -> tuple[object, ...]:
    """`args` as positional arguments: a tuple is what it says, anything else is the only argument."""
    return args if isinstance(args, tuple) else (args,)
