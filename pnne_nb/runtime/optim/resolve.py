"""Finds torch's own classes by name, and constructs them with the arguments that somebody gives."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias

from pnne_nb.errors import TrainingError, near, shown

Options: TypeAlias = Mapping[str, Any]


def classes(module: Any, base: type, *, exclude: frozenset[str] = frozenset()) -> dict[str, type]:
    """Return the public classes of `module` that are a `base`, by name."""
    found = {name: value for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)}
    return {name: value for name, value in found.items() if name[0].isupper() and name not in exclude}


def build(kind: str, known: Mapping[str, type], name: str | type, options: Options, *arguments: Any) -> Any:
    """Construct an object from the class of that name, or from a class itself, with `arguments` and `options`.

    Args:
        kind: What it is, for messages.
        known: Classes by name.
        name: Of one of them, or another one.
        options: Arguments by name.
        arguments: What comes before them.

    Raises:
        TrainingError: There is no such class, or it refuses its arguments.
    """
    if isinstance(name, type):
        return call(kind, name.__name__, name, arguments, options)
    if name not in known:
        raise TrainingError(f"There is no {kind} called {shown(name)}.{near(name, known) or _containing(name, known)}")
    return call(kind, name, known[name], arguments, options)


def _containing(name: object, known: Mapping[str, type]) -> str:
    parts = [full for full in known if isinstance(name, str) and len(name) > 3 and name.casefold() in full.casefold()]
    return f" Did you mean {' or '.join(map(repr, parts))}?" if parts else ""


def call(kind: str, name: str, made_by: type, arguments: tuple[Any, ...], options: Options) -> Any:
    """Construct an object by `made_by`; for arguments and errors, see `build`."""
    parameters = list(inspect.signature(made_by).parameters)
    for option in options:
        if option not in parameters:
            # The first ones are given here: the parameters of the model, or the optimizer.
            taken = parameters[len(arguments) :]
            raise TrainingError(
                f"{name} has no argument {option!r}; it has {', '.join(taken) or 'none'}.{near(option, taken)}"
            )
    try:
        return made_by(*arguments, **options)
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        why = str(error).rstrip(".")
        raise TrainingError(f"The {kind} {name} refuses its arguments {dict(options)!r}: {why}.") from error
