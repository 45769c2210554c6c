"""The reference of the site: ``pages()`` writes what Sphinx reads, ``twins()`` the same as plain Markdown.

Both are made of the signatures and docstrings that are there, so that a name is described in one place. The page of a
public name is that of the room which it lives in.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pnne_nb as pn
from pnne_nb.compiler.shapes.mismatch import NodeFinding
from pnne_nb.diagnosis.finding import KINDS, false_alarms
from pnne_nb.errors import Diagnostic, meanings
from pnne_nb.export.formats.base import not_written
from pnne_nb.runtime.distributed.launch.plan import LaunchPlan

PACKAGE: Final = Path(pn.__file__).parent


class Room(NamedTuple):
    """A page of the reference.

    Attributes:
        title: Heading of the page.
        about: What is on it, in one sentence.
        homes: Folders of the package whose public names it has.
    """

    title: str
    about: str
    homes: tuple[str, ...]


ROOMS: Final = {
    "draw": Room("Draw", "The document, its nodes and their types.", ("graph", "catalog", "protocol")),
    "compile": Room("Compile and import", "From a document to an `nn.Module`, and back.", ("compiler",)),
    "train": Room("Train", "The engine, its data and its devices.", ("runtime",)),
    "diagnose": Room("Diagnose", "What is wrong with a training, also in other loops.", ("diagnosis", "debugging")),
    "inspect": Room("Inspect", "Layers, measured and counted.", ("inspector",)),
    "export": Room("Export and predict", "Files that are proved, and predictions.", ("export", "inference")),
    "widgets": Room("Widgets", "What a cell shows.", ("widgets",)),
    "errors": Room("Errors", "What is raised on purpose. Each is a `pn.PnneError`.", ("errors",)),
}


def room_of(name: str) -> str:
    """Return the room of a public name.

    Raises:
        LookupError: Its folder has no page; it is to be added to `ROOMS`.
    """
    value = getattr(pn, name)
    home = (value.__name__ if isinstance(value, ModuleType) else _written_in(value)).split(".")[1]
    for room, (_, _, homes) in ROOMS.items():
        if home in homes:
            return room
    raise LookupError(f"No page of the reference has {home}/, where pn.{name} lives. Add it to ROOMS in {__file__}.")


def _written_in(value: object) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def public_names(room: str) -> list[str]:
    """Return the public names of a room, classes first."""
    names = [name for name in pn.__all__ if room_of(name) == room]
    return sorted(names, key=lambda name: (not inspect.isclass(getattr(pn, name)), name.lower()))


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """Yield what a class itself, or a class of this package that it stands on, says of its public members."""
    seen = set[str]()
    for base in value.__mro__:
        if base.__module__.startswith("pnne_nb"):
            for name, member in vars(base).items():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if not name.startswith("_") and name not in seen and inspect.isfunction(function) and function.__doc__:
                    seen.add(name)
                    yield name, member


def _things(name: str) -> list[tuple[str, Any]]:
    """Return what there is to describe under a public name: itself, or the classes of a module of them."""
    value = getattr(pn, name)
    if isinstance(value, ModuleType) and not callable(value):
        classes = [(f"{name}.{each}", found) for each, found in vars(value).items() if inspect.isclass(found)]
        own = [pair for pair in classes if pair[1].__module__.startswith(value.__name__)]
        return [(name, value), *sorted(own, key=lambda pair: pair[0])]
    return [(name, value)]


def _directive(name: str, value: Any) -> str:
    """Return an entry that Sphinx fills in; what is no class or function has its text as it is."""
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return _written(name, value)
    kind = "function" if inspect.isfunction(value) else "exception" if issubclass(value, BaseException) else "class"
    members = ", ".join(each for each, _ in _members(value)) if inspect.isclass(value) else ""
    options = f"\n   :members: {members}" if members else ""
    options = f"{_constructor(value)}{options}" if _hidden_constructor(value) else options
    path = f"pnne_nb.{name}" if "." not in name else f"{value.__module__}.{value.__name__}"
    return f"## pn.{name}\n\n```{{eval-rst}}\n.. auto{kind}:: {path}{options}\n```\n"


def pages() -> dict[str, str]:
    """Return the pages of the reference by file name, with directives for Sphinx."""
    made = {f"{room}.md": _page(room, _directive) for room in ROOMS}
    return {**made, **_plain()}


def twins() -> dict[str, str]:
    """Return the same pages without directives: signatures and docstrings as they are."""
    made = {f"{room}.md": _page(room, _written) for room in ROOMS}
    return {**made, **_plain()}


def _page(room: str, entry: Callable[[str, Any], str]) -> str:
    things = [thing for name in public_names(room) for thing in _things(name)]
    return f"# {ROOMS[room].title}\n\n{ROOMS[room].about}\n\n" + "\n".join(entry(*thing) for thing in things)


def _plain() -> Mapping[str, str]:
    return {"messages.md": _messages(), "findings.md": _findings(), "launch.md": _launch()}


def _written(name: str, value: Any) -> str:
    called = type(value).__call__ if isinstance(value, ModuleType) and callable(value) else value
    parts = [f"## pn.{name}\n\n{_signature(name, called)}{_text(called if called is not value else value)}\n"]
    if inspect.isclass(value):
        parts += [
            f"### {name}.{each}\n\n{_signature(each, member)}{_text(member)}\n" for each, member in _members(value)
        ]
    return "\n".join(parts)


def _text(value: object) -> str:
    """Return a docstring as Markdown: an example behind `::` is a block of code."""
    return re.sub(
        r"::\n\n((?:    .*\n?|\n)+)",
        lambda block: f":\n\n```python\n{textwrap.dedent(block.group(1)).strip()}\n```\n",
        inspect.getdoc(value) or "",
    )


def _signature(name: str, value: Any) -> str:
    function = getattr(value, "__func__", value)
    try:
        written = _constructor(value) if _hidden_constructor(value) else inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    return f"```\n{name}{written}\n```\n\n"


def _hidden_constructor(value: object) -> bool:
    """Return whether a class has its arguments from `__init__`, but a foreign `__new__` in front of it, as widgets have."""
    if not inspect.isclass(value) or not inspect.isfunction(value.__init__):  # type: ignore[misc]  # of a class that is known
        return False
    return inspect.isfunction(value.__new__) and not value.__new__.__module__.startswith("pnne_nb")


def _constructor(value: type) -> inspect.Signature:
    _, *parameters = inspect.signature(value.__init__).parameters.values()  # type: ignore[misc]  # of a class that is known
    return inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])


class Message(NamedTuple):
    """What one place of the code says under a code.

    Attributes:
        message: The sentence, with `…` for what differs from case to case.
        hint: What to do about it, in the same form.
    """

    message: str
    hint: str


@functools.cache
def messages() -> dict[str, list[Message]]:
    """Return what is said under each code of a `Diagnostic`, read from the places that say it."""
    found: dict[str, list[Message]] = {}
    makers = {each.__name__: list(each.__struct_fields__) for each in (Diagnostic, NodeFinding)}
    makers["not_written"] = list(inspect.signature(not_written).parameters)
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(f"{maker}(" in text for maker in makers):
            for code, message in _said(ast.parse(text), makers):
                found.setdefault(code, []).append(message)
    return {code: _complete(said) for code, said in sorted(found.items())}


def _said(module: ast.Module, makers: Mapping[str, list[str]]) -> Iterator[tuple[str, Message]]:
    """Yield what is said under each code: given to one of `makers`, argument names by function, or to one of the module's own."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    own = {each.name: names for each in functions if "code" in (names := [arg.arg for arg in each.args.args])}
    makers = {**makers, **own}
    # Functions within others come behind these, so that each call ends up in the innermost one.
    scopes = {node: scope for scope in (module, *functions) for node in ast.walk(scope) if isinstance(node, ast.Call)}
    known = {scope: _assigned(scope) for scope in set(scopes.values())}
    for call, scope in scopes.items():
        names = [name for name in makers.get(ast.unparse(call.func).rpartition(".")[2], ()) if name != "self"]
        said = dict(zip(names, call.args, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}
        code = said.get("code")
        if isinstance(code, ast.Constant) and isinstance(code.value, str):
            message, hint = (_template(said.get(part), known[scope]) for part in Message._fields)
            yield code.value, Message(message or "…", hint)


def _assigned(scope: ast.AST) -> dict[str, ast.expr]:
    """Return what is assigned to each name of a function, the last of several."""
    return {
        target.id: node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _complete(said: list[Message]) -> list[Message]:
    """Return each message once; those that are known only from outside of their function are left out if others are not."""
    several = list(dict.fromkeys(said))
    return [each for each in several if each.message != "…"] or several[:1]


def _template(text: ast.expr | None, known: Mapping[str, ast.expr]) -> str:
    """Return a text of the code; what is put in when it is said becomes `…`."""
    match text:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=parts):
            return re.sub("…+", "…", "".join(_template(part, known) for part in parts))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return re.sub("…+", "…", _template(left, known) + _template(right, known))
        case ast.Name(id=name) if name in known:
            return _template(known[name], {key: value for key, value in known.items() if key != name})
        case None | ast.Constant():
            return ""
        case _:
            return "…"


def _messages() -> str:
    lines = [
        "# Codes of messages",
        "Every problem of a graph is a `pn.Diagnostic` with a code. In the editor, it stands at its node, with its code. An",
        'error names its codes, too, and `pn.explain("shape-mismatch")` shows what this page says of one.\n',
    ]
    for code, said in messages().items():
        meaning = meanings()[code]
        lines += [f"## {code}\n", f"{meaning['cause']}\n", f"**What to do:** {meaning['repair']}\n"]
        if several := [each for each in said if each.message != "…"]:
            lines.append("It says, with `…` for what differs from case to case:\n")
            lines += [f"- {_shown(each.message)}{_advice(each.hint)}" for each in several]
            lines.append("")
    return "\n".join(lines) + "\n"


def _findings() -> str:
    lines = [
        "# Findings about a training\n",
        "`pn.diagnose(engine)` returns findings of these kinds, the most probable cause first, and the dashboard shows them.",
        'Each says what was seen in your training. `pn.explain("dead-relu")` shows what this page says of a kind.\n',
    ]
    for name, kind in KINDS.items():
        lines += [f"## {name}\n", f"{kind.cause}\n", f"**Seen in:** {kind.evidence}\n"]
        lines += [f"**What to do:** {kind.repair}\n", f"{false_alarms(name)}\n"]
    return "\n".join(lines)


def _advice(hint: str) -> str:
    return f" **What to do:** {_shown(hint)}" if hint.strip("…") else ""


def _shown(text: str) -> str:
    return re.sub(r"([*_`<\[\]$|])", r"\\\1", " ".join(text.split()))


def _launch() -> str:
    signature = inspect.signature(pn.TrainingEngine.launch)
    described = _arguments(inspect.getdoc(pn.TrainingEngine.launch) or "")
    options = _arguments(inspect.getdoc(LaunchPlan) or "")
    lines = [
        "# Options of `launch`\n",
        "`engine.launch(nproc=2)` trains in several processes.\n",
        "| Option | Default | Meaning |",
    ]
    lines.append("|---|---|---|")
    for name, parameter in signature.parameters.items():
        if name not in {"self", "options"}:
            lines.append(f"| `{name}` | `{parameter.default!r}` | {described.get(name, '')} |")
    for name, parameter in inspect.signature(LaunchPlan).parameters.items():
        if name not in signature.parameters:
            default = "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
            lines.append(f"| `{name}` | {default} | {options.get(name, '')} |")
    return "\n".join(lines) + "\n"


def _arguments(doc: str) -> dict[str, str]:
    """Return what a docstring says of each argument or attribute, in one line each."""
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", doc, re.MULTILINE)
    entries = re.split(r"\n(?=\w)", textwrap.dedent(section.group(1))) if section else []
    pairs = (entry.partition(":") for entry in entries)
    return {name.strip(): " ".join(text.split()) for name, _, text in pairs}
