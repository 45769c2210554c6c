"""Names the node on screen in errors of a model that is constructed or called.

The generated class itself stays plain: its ``__call__`` is wrapped afterwards. While nothing fails, the wrapper costs
one function call per forward pass.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from traceback import walk_tb
from types import CodeType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.compiler.codegen.model_document import AGAIN, ModelDocument, misfits
from pnne_nb.compiler.codegen.source_map import NodeLine
from pnne_nb.compiler.shapes.fake_tensors import imitation
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.compiler.shapes.scope import missing_device
from pnne_nb.errors import CompileError, Diagnostic, ExecutionError, PnneError


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


_CALLING = tuple(
    code for call in (nn.Module._wrapped_call_impl, nn.Module._call_impl) for code in _codes(call.__code__)
)
"""Code of torch that calls the ``forward`` of a module."""


def _shorten(error: BaseException, around: CodeType) -> None:
    """Shorten a traceback to the lines that matter.

    Torch's frames that call the next module are removed, and so are torch's frames between lines of the model and of the
    user's code, and torch's private frames, such as those of its compiler. The innermost frames, which failed, stay.

    Args:
        error: It is about to leave a model.
        around: The code that calls the model, and has caught it.
    """
    steps: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        # A frame that only calls the next one is torch's, or says so itself, as pytest's do.
        if frame.f_code not in (*_CALLING, around) and frame.f_locals.get("__tracebackhide__") is not True:
            steps.append(step)
        step = step.tb_next
    modules = [str(step.tb_frame.f_globals.get("__name__", "")).split(".") for step in steps]
    own = max((index for index, module in enumerate(modules) if module[0] != "torch"), default=-1)
    following = None
    for index in range(len(steps) - 1, -1, -1):
        public = not any(part.startswith("_") for part in modules[index])
        if modules[index][0] != "torch" or index == len(steps) - 1 or (index > own and public):
            kept = steps[index]
            following = TracebackType(following, kept.tb_frame, kept.tb_lasti, kept.tb_lineno)
    error.__traceback__ = following


NOT_FINITE = "not-finite"
"""Code of the diagnostics of ``compiler.analysis.nan_locator``."""

_MODULE_CALL = nn.Module.__call__

_around: dict[int, Callable[[], AbstractContextManager[None]]] = {}
"""Context in which each followed model runs, in every thread, by its identity."""


class Failure(NamedTuple):
    """The place in generated code where an exception was raised.

    Attributes:
        node: Path of the node, as on screen.
        inputs: Its inputs in words, by variable.
    """

    node: str
    inputs: dict[str, str]


def blame(error: BaseException) -> str | None:
    """Return the path of the node at which a compiled model failed, or None for other errors.

    Args:
        error: Caught from a call of the model, or from anything that made one.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, PnneError):
            named = next((d.node for d in current.diagnostics if d.node is not None), None)
            if named is not None:
                return named
        failure = find_failure(current)
        if failure is not None:
            return failure.node
        if (place := _while_compiling(current)) is not None:
            return place
        current = current.__cause__ or current.__context__
    return None


def find_failure(error: BaseException) -> Failure | None:
    """Return the place in generated code where `error` was raised, or None."""
    path: list[str] = []
    last: tuple[types.FrameType, NodeLine] | None = None
    model: object = None
    box: object = None  # the first module that is called by a line
    below: list[types.FrameType] = []  # from there on
    for frame, number in walk_tb(error.__traceback__):
        line = loader.line_at(frame.f_code.co_filename, number)
        if line is not None and line.calls:
            part = frame.f_locals.get("self")
            model = part if last is None else model
            path += _outside(frame, part) if last is None else inside_box(box, part)
            path.append(line.node)
            last, box, below = (frame, line), None, []
        elif last is not None:
            box = _first_argument(frame) if box is None else box
            below.append(frame)
    if last is None:
        return None
    inside = _called_inside(box, below) if _is_drawn_box(model, box) else None
    if inside is not None:
        name, frame = inside
        variables = frame.f_code.co_varnames[1 : frame.f_code.co_argcount]
        path.append(name)
    else:
        frame, variables = last[0], last[1].variables
    inputs = {name: describe(frame.f_locals[name]) for name in variables if name in frame.f_locals}
    return Failure(".".join(path), inputs)


def _is_drawn_box(model: object, box: object) -> bool:
    """Return whether a module is opaque and has nodes of the document inside."""
    loaded = loader.loaded_from(model) if isinstance(model, nn.Module) else None
    if loaded is None or not isinstance(model, nn.Module) or not isinstance(box, nn.Module):
        return False
    # The whole of a model has another object for itself, with the same content.
    return any(vars(model.get_submodule(path)) is vars(box) for path in loaded.generated.boxes)


def _called_inside(box: object, frames: Sequence[types.FrameType]) -> tuple[str, types.FrameType] | None:
    """Return the path of the layer that an opaque module was calling, and the arguments of its ``forward``."""
    assert isinstance(box, nn.Module)
    names = {id(part): name for name, part in box.named_modules() if name}
    found = None
    for frame in frames:
        part = _first_argument(frame)
        if id(part) in names and frame.f_code.co_name == "forward":
            found = names[id(part)], frame
            if type(part).__module__.startswith("torch.nn.") and not isinstance(part, nn.Sequential):
                break  # what is inside torch's own layers is not drawn
    return found


def _first_argument(frame: types.FrameType) -> object:
    """Return whose method runs in a frame, whatever its author calls it."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def _while_compiling(error: BaseException) -> str | None:
    """Return the node at whose line ``torch.compile`` gave up, whose exceptions keep the lines it has read."""
    lines = [loader.line_at(frame.filename, frame.lineno or 0) for frame in getattr(error, "real_stack", None) or ()]
    return ".".join(line.node for line in lines if line is not None and line.calls) or None


def _outside(frame: types.FrameType, part: object) -> Iterator[str]:
    """Yield the path of a nested module that was called by itself, as when the backward pass recomputes it."""
    loaded = loader.find(frame.f_code.co_filename)
    if loaded is not None and not isinstance(part, loaded.cls):
        for model in list(loaded.instances):
            path = next((path for path, module in model.named_modules() if module is part), "")
            if path:
                yield path
                return


def inside_box(box: object, part: object) -> list[str]:
    """Return the path from an opaque module to a generated one that it calls; empty for itself."""
    if box is part or not isinstance(box, nn.Module):
        return []
    path = next((path for path, module in box.named_modules() if module is part), "")
    return path.split(".") if path else []


def constructed(loaded: loader.Loaded, opaque: Sequence[nn.Module], document: ModelDocument) -> nn.Module:
    """Construct a model of a document; errors name the node.

    Raises:
        CompileError: If a node is placed on a device that is not here, or the constructor of a layer refuses its
            properties; the node is named.
    """
    placed = ((path, missing_device(device, "error")) for path, device in loaded.generated.devices.items())
    if elsewhere := [finding.at(path) for path, finding in placed if finding is not None]:
        raise failure(loaded.generated.name, elsewhere)
    try:
        return loaded.new(*opaque, document=document)
    except Exception as error:
        lines = [loader.line_at(frame.f_code.co_filename, number) for frame, number in walk_tb(error.__traceback__)]
        path = [line.node for line in lines if line is not None]
        if not path:
            raise
        diagnostic = Diagnostic(
            code="bad-properties",
            message=f"The layer cannot be built: {error}.",
            node=".".join(path),
            hint="Change its properties.",
        )
        raise CompileError(str(diagnostic), [diagnostic]) from error


def describe(value: object) -> str:
    """Return a value of a forward pass as text: ``"[2, 256] float32"``."""
    if isinstance(value, torch.Tensor):
        device = "" if value.device.type in ("cpu", "meta") else f" on {value.device}"
        return f"[{', '.join(map(str, value.shape))}] {str(value.dtype).removeprefix('torch.')}{device}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(describe(item) for item in value)})"
    if value is None or isinstance(value, (bool, int, float)):
        return str(value)
    return type(value).__name__


def guard(loaded: loader.Loaded) -> None:
    """Wrap the calls of a class, so that errors name the node, and have ``print(model)`` say what it takes."""
    loaded.cls.__call__ = _call  # type: ignore[method-assign]  # calls the one it replaces
    loaded.cls.load_state_dict = _load_state_dict  # type: ignore[method-assign]  # likewise
    loaded.cls.extra_repr = _inputs  # type: ignore[method-assign]


def _inputs(self: nn.Module) -> str:
    document = loader.document_of(self)
    takes = [str(each) for each in document.expected] if document is not None else []
    return f"inputs: {', '.join(takes)}" if takes else ""


def _load_state_dict(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    try:
        return nn.Module.load_state_dict(self, *args, **kwargs)
    except RuntimeError as error:
        error.args = (
            f"{error}\n\tWrite pn.load_weights(model, state_dict), which finds what fits and tells what does not.",
        )
        raise


@contextmanager
def running_inside(model: nn.Module, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Run each call of a compiled model in a context of its own, in any thread, during the block."""
    before = _around.get(id(model))
    _around[id(model)] = around
    try:
        yield
    finally:
        if before is None:
            del _around[id(model)]
        else:
            _around[id(model)] = before


def _call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    try:
        if _around and (around := _around.get(id(self))) is not None:
            with around():
                return nn.Module.__call__(self, *args, **kwargs)
        if self._compiled_call_impl is None and nn.Module.__call__ is _MODULE_CALL:
            # What nn.Module.__call__ does, without a call in between, so that tiny models lose no time. Tracers
            # that put another function in its place get what they want.
            return self._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch does not say
        return nn.Module.__call__(self, *args, **kwargs)
    except Exception as error:
        __tracebackhide__ = True  # in notebooks, and in pytest
        unexpected = _unexpected(self, args, kwargs)
        compiled = self._compiled_call_impl is not None and find_failure(error) is None
        named = _repeated(self, args, kwargs, unexpected) if compiled else None
        named = named or _named(error, unexpected)
        _shorten(error, _call.__code__)
        if named is None:
            raise
        raise named from error


def _repeated(model: nn.Module, args: Any, kwargs: Any, unexpected: str) -> ExecutionError | None:
    """Return the exception of the same call of a model where Python runs it, or None if that does not fail.

    What ``torch.compile`` raises names none of the nodes. The call is repeated on a copy without data, which costs no
    memory, uses no random numbers and changes nothing.
    """
    try:
        with imitation(model, (args, kwargs)) as (twin, (given, named)):
            twin(*given, **named)
    except ExecutionError as error:
        message = f"{error}\n{unexpected}" if unexpected else str(error)
        return ExecutionError(message, error.diagnostics)
    except Exception:  # noqa: BLE001  # such as that it looks at its data: then the first one has to do
        return None
    return None


def _unexpected(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Say in which way the arguments of a call are not what the document's Input nodes say."""
    loaded, document = loader.loaded_from(model), loader.document_of(model)
    if loaded is None or document is None:
        return ""
    tensors = [*model.parameters(), *model.buffers()]
    devices = {tensor.device for tensor in tensors}
    kinds = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    # Nodes with devices of their own have their inputs moved to them.
    home = next(iter(devices)) if len(devices) == 1 and not loaded.generated.devices else None
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    return "\n".join(misfits(document.expected, args, kwargs, home, kind))


def _named(error: Exception, unexpected: str) -> ExecutionError | None:
    """Return the exception to raise instead of `error`, or None after a note has been added to it.

    Only plain exceptions of Python are replaced. Callers may catch others by their type: running out of
    memory, tracing that gives up, a hook that wants to leave.
    """
    if isinstance(error, ExecutionError) and any(found.code == NOT_FINITE for found in error.diagnostics):
        return None  # it names the node before the one that Python was about to run
    failure = find_failure(error)
    if failure is None:
        if unexpected and isinstance(error, TypeError):  # Python itself has refused the call
            if AGAIN in unexpected:
                return ExecutionError(unexpected)
            error.add_note(unexpected)
        return None
    inputs = "".join(f"\n  {name}: {text}" for name, text in failure.inputs.items())
    place = f"Node {failure.node!r} failed"
    if type(error).__module__ != "builtins":
        said = f"{place}. Its inputs:{inputs}" if inputs else f"{place}."
        error.add_note(f"{said}\n{unexpected}" if unexpected else said)
        return None
    reason, kind = str(error), type(error).__name__
    if not reason or type(error) not in (RuntimeError, ValueError, TypeError):  # some messages are only a key
        reason = f"{kind}: {reason}" if reason else kind
    parts = [f"{place}: {reason}", *([f"Its inputs:{inputs}"] if inputs else []), *([unexpected] if unexpected else [])]
    message = "\n".join(parts)
    return ExecutionError(message, [Diagnostic(code="execution", message=str(error), node=failure.node)])
