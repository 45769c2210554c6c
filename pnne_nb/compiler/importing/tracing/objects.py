"""Takes objects of plain classes apart, such as caches of keys and values, and records nodes that make and fill them.

Traced code is given a copy of an object, whose numbers and tensors are read from the object at a node. The attributes that
the code has assigned by the end of the call are recorded as one call that sets them. An object that the code makes itself
is recorded as one call that makes it from its attributes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import is_dataclass
from types import SimpleNamespace
from typing import Any, final

import torch
from torch import fx, nn

from pnne_nb.catalog.custom import ObjectMaker, empty
from pnne_nb.catalog.operators import set_attributes_
from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import TracedContainer, is_plain_object, seen, wrap
from pnne_nb.compiler.importing.tracing.recorder import TraceRecorder

MAX_PARTS = 10_000
"""Attributes and items of one object, with those of its content, beyond which it is refused."""


def rebuilt(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a copy of an object and its content, in which all but objects, lists, tuples and dictionaries is replaced.

    Raises:
        UntranslatableError: If it holds more than `MAX_PARTS`.
    """
    made: dict[int, Any] = {}
    count = 0

    def again(each: Any) -> Any:
        nonlocal count
        count += 1
        if count > MAX_PARTS:
            raise UntranslatableError(f"it is given a {type(value).__name__} with more than {MAX_PARTS:,} parts")
        if id(each) in made:
            return made[id(each)]
        if is_plain_object(each):
            new = made[id(each)] = empty(type(each))
            vars(new).update({name: again(part) for name, part in vars(each).items()})
            return new
        if type(each) in (list, tuple):
            return type(each)(map(again, each))
        if type(each) is dict:
            return {key: again(part) for key, part in each.items()}
        return leaf(each)

    return again(value)


@final
class Objects:
    """The objects that one traced ``forward`` is given and makes.

    Args:
        recorder: Records the attributes that are read and assigned.
        module: The traced module; the objects that it keeps itself are no values of a graph.
    """

    def __init__(self, recorder: TraceRecorder, module: nn.Module) -> None:
        self._recorder = recorder
        self._nodes: dict[int, fx.Node | None] = {}
        self._given: list[tuple[Any, fx.Node, dict[str, Any]]] = []
        self._containers: list[TracedContainer] = []
        self._read: list[fx.Node] = []
        self._unread: dict[int, tuple[Any, Any, dict[int, Any]]] = {}
        self._sealed = _sealed(self._opened, lambda new: type(self._unread[id(new)][1]))
        self._kept = {id(value) for each in module.modules() for value in vars(each).values()}
        self._alive: list[Any] = []  # keeps identities from being used again

    def proxied(self, node: fx.Node, value: Any, made: dict[int, Any]) -> Any:
        """Return the proxy of a value at a node, which is a copy of an object, filled when the code looks into it.

        Args:
            node: Gives the value.
            value: As in the example.
            made: The proxies of the objects, lists and dictionaries around it, by identity.

        Raises:
            UntranslatableError: If it has too many parts.
        """
        if id(value) in made:
            return made[id(value)]
        if len(made) > MAX_PARTS:
            raise UntranslatableError(f"it is given an object with more than {MAX_PARTS:,} parts")
        if not is_plain_object(value):
            found = wrap(node, self._recorder, value, made)
            if isinstance(found, TracedContainer):
                self._containers.append(found)
            return found
        is_open = type(value) is SimpleNamespace  # of whose class no other object can become
        new = made[id(value)] = SimpleNamespace() if is_open else self._sealed()
        self._nodes[id(new)] = node
        self._unread[id(new)] = new, value, made
        return self._opened(new) if is_open else new

    def _attribute(self, names: fx.Node, name: str, value: Any, made: dict[int, Any]) -> Any:
        node = self._item(names, name)
        self._recorder.assumptions.looked(node, *seen(value))
        if value is None or type(value) in (bool, str):
            return value
        plain = (torch.Tensor, torch.dtype, int, float, list, tuple, dict)
        if isinstance(value, plain) or is_plain_object(value):
            return self.proxied(node, value, made)
        raise UntranslatableError(f"it is given an object with a {type(value).__name__} in it, which no node can check")

    def _opened(self, new: Any) -> Any:
        """Return a given object with its attributes, because the code is about to read them."""
        new, value, made = self._unread.pop(id(new))
        node = self._nodes[id(new)]
        assert node is not None, "it was given from there"
        if type(new) is not type(value):
            object.__setattr__(new, "__class__", type(value))
        names = self._node(vars, node)
        vars(new).update({name: self._attribute(names, name, each, made) for name, each in vars(value).items()})
        self._given.append((new, node, {name: _likeness(each) for name, each in vars(new).items()}))
        return new

    def _item(self, holder: fx.Node, key: Any) -> fx.Node:
        return self._node(operator.getitem, holder, key)

    def _node(self, function: Callable[..., Any], *args: Any) -> fx.Node:
        node = self._recorder.create_node("call_function", function, args, {})
        self._read.append(node)
        return node

    def node_of(self, value: Any) -> fx.Node:
        """Return the node of an object, or one that makes it.

        Raises:
            UntranslatableError: If it contains itself, or the module keeps it.
        """
        known = self._nodes.get(id(value))
        if known is not None:
            return known
        kind = type(value)
        if id(value) in self._kept:
            raise UntranslatableError(f"it passes on a {kind.__name__} that it keeps for later calls")
        if id(value) in self._nodes:
            raise UntranslatableError(f"it passes on a {kind.__name__} that contains itself")
        self._nodes[id(value)] = None
        self._alive.append(value)
        attributes = self._recorder.create_arg(dict(vars(value)))
        made = self._recorder.create_node("call_function", ObjectMaker(kind), (attributes,), {})
        self._nodes[id(value)] = made
        return made

    def refuse_in(self, given: Any, target: Any) -> None:
        """Refuse objects among the arguments of a function that is called as a whole, because it may change them unseen.

        Raises:
            UntranslatableError: If there is one.
        """
        if type(given) in (tuple, list):
            for each in given:
                self.refuse_in(each, target)
        elif type(given) is dict:
            self.refuse_in(tuple(given.values()), target)
        elif is_made(given) or self.knows(given):
            name = getattr(target, "__name__", target)
            raise UntranslatableError(f"it gives a {given.__class__.__name__} to {name}, which may change it")

    def knows(self, value: Any) -> bool:
        """Return whether an object came from a node, or was made by one."""
        return self._nodes.get(id(value)) is not None

    def finish(self) -> None:
        """Record the attributes that the code has assigned to the objects that it was given.

        Raises:
            UntranslatableError: If it has removed an attribute.
        """
        for container in self._containers:
            container.flush()
        for value, node, before in self._given:
            now = vars(value)
            if not before.keys() <= now.keys():
                raise UntranslatableError(f"it removes an attribute of a {type(value).__name__} that it is given")
            changed = {name: each for name, each in now.items() if before.get(name) != _likeness(each)}
            if changed:
                attributes = self._recorder.create_arg(changed)
                self._recorder.create_node("call_function", set_attributes_, (node, attributes), {})

    def sweep(self) -> None:
        """Remove what reads attributes that nothing needs."""
        for node in reversed(self._read):
            if not node.users:
                node.graph.erase_node(node)


def _sealed(opened: Callable[[Any], Any], kind: Callable[[Any], type]) -> type:
    """Return a class of objects that are filled when the code first looks into them: most are only passed on.

    Args:
        opened: Fills an object.
        kind: Returns the class that an object has then.
    """

    def read(sealed: Any, name: str) -> Any:
        return kind(sealed) if name == "__class__" else getattr(opened(sealed), name)

    def called(name: str) -> Callable[..., Any]:
        return lambda sealed, *args: getattr(opened(sealed), name)(*args)

    methods = {name: called(name) for name in ("__setattr__", "__delattr__", "__len__", "__getitem__", "__setitem__",
                                               "__iter__", "__contains__")}  # fmt: skip
    methods["__bool__"] = lambda sealed: bool(opened(sealed))
    return type("Sealed", (), {"__getattribute__": read, **methods})


def is_made(value: Any) -> bool:
    """Return whether a node makes an object from its attributes; data classes are made by their constructors."""
    return is_plain_object(value) and not is_dataclass(value)


def _likeness(value: Any) -> Any:
    """Return the identities of all leaves, which are the same as long as nothing is assigned."""
    if type(value) in (list, tuple):
        return type(value), tuple(map(_likeness, value))
    if type(value) is dict:
        return dict, tuple((key, _likeness(each)) for key, each in value.items())
    return (type(value), value) if isinstance(value, (type(None), bool, str)) else id(value)
