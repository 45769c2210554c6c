"""Finds torch's own classes by name, and constructs them with given arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.habits import Habits

Options: TypeAlias = Mapping[str, Any]


_ELSEWHERE: Final = Habits("choices")
"""What losses and schedulers are called elsewhere."""

_OPTIONS: Final = Habits("options")
"""What options are called elsewhere."""


def classes(module: Any, base: type, *, exclude: frozenset[str] = frozenset()) -> dict[str, type]:
    """Return the public classes of `module` that are a `base`, by name."""
    found = {name: value for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)}
    return {name: value for name, value in found.items() if name[0].isupper() and name not in exclude}


def build(kind: str, known: Mapping[str, type], name: str | type, options: Options, *arguments: Any) -> Any:
    """Construct an object from the class of that name, or from a class itself, with `arguments` and `options`.

    Args:
        kind: What it is, for messages.
        known: Classes by name.
        name: Of one of them, or another class.
        options: Arguments by name.
        arguments: What comes before them.

    Raises:
        TrainingError: There is no such class, or it refuses its arguments.
    """
    if isinstance(name, type):
        return call(kind, name.__name__, name, arguments, options)
    if name not in known:
        raise TrainingError(f"There is no {kind} called {shown(name)}.{_meant(name, known)}")
    return call(kind, name, known[name], arguments, options)


def _meant(name: object, known: Mapping[str, type]) -> str:
    elsewhere = _ELSEWHERE.get(name.casefold()) if isinstance(name, str) else None
    if elsewhere in known:
        return f" Write {elsewhere!r}."
    parts = [full for full in known if isinstance(name, str) and len(name) > 3 and name.casefold() in full.casefold()]
    return near(name, known) or (f" Did you mean {' or '.join(map(repr, parts))}?" if parts else "")


def meant_option(option: str, known: Sequence[str]) -> str:
    """Return a sentence, after a space, that replaces an unknown option of an optimizer, a schedule or a loss."""
    own = _OPTIONS.get(option)
    return f" Write {own}." if own in known else near(option, known)


def call(kind: str, name: str, made_by: type, arguments: tuple[Any, ...], options: Options) -> Any:
    """Construct an object by `made_by`; for arguments and errors, see `build`."""
    parameters = inspect.signature(made_by).parameters
    # The first ones are given here: the parameters of the model, or the optimizer.
    taken = list(parameters)[len(arguments) :]
    for option in options:
        if option not in parameters:
            has = ", ".join(taken) or "none"
            raise TrainingError(f"{name} has no argument {option!r}; it has {has}.{meant_option(option, taken)}")
    lacking = [
        option
        for option in taken
        if (one := parameters[option]).default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
        if option not in options
    ]
    if lacking:
        needed = ", ".join(f'"{option}": ...' for option in lacking)
        raise TrainingError(f'The {kind} {name} needs {" and ".join(lacking)}. Write {kind}=("{name}", {{{needed}}}).')
    try:
        return made_by(*arguments, **options)
    except (TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        why = str(error).rstrip(".")
        raise TrainingError(f"The {kind} {name} refuses its arguments {dict(options)!r}: {why}.") from error
