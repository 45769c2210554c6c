"""Changes a document by transactions, which are staged, committed as a whole or not at all, numbered, and undone.

Every change of a document's content goes through its `TransactionLog`, under its lock.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import NoneType
from typing import Final, Literal, final

import msgspec

from pnne_nb.errors import GraphError, StaleVersionError, expect, shown, together
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.edits.provenance import disproved
from pnne_nb.graph.edits.ties import retied
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Transaction, split_port
from pnne_nb.graph.model.ops import Op, SetProperty, SetSize
from pnne_nb.graph.model.validate import Types, checked
from pnne_nb.graph.schema.calculation import calculated, names_used, written_out
from pnne_nb.graph.schema.values import Calculated, mapped
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import Subscribers

Observer = Callable[[Transaction], None]

_log = logging.getLogger(__name__)


@final
class Notifications:
    """The observers, and the transactions that are still to be delivered."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._lock = fork_safe(threading.RLock())
        self._observers = Subscribers[Observer]()
        self._pending: deque[Transaction] = deque()
        self._delivering = False

    def __len__(self) -> int:
        """Return the number of observers."""
        return len(self._observers)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with each transaction; return a function that ends this."""
        end = self._observers.add(observer)

        def unsubscribe() -> None:
            with self._lock:  # not while another thread delivers
                end()

        return unsubscribe

    def add(self, done: Transaction) -> None:
        """Keep `done` for the next `deliver`."""
        self._pending.append(done)

    def deliver(self) -> None:
        """Deliver pending transactions, unless another call is already doing so.

        One thread delivers at a time, so that every observer sees the versions in order.
        """
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
            try:
                while self._pending:
                    done = self._pending.popleft()
                    for observer in self._observers:
                        try:
                            observer(done)
                        except Exception:  # noqa: BLE001  # any error: the change is made, and other observers are waiting
                            _log.exception("An observer of %s failed at version %d", self._describe(), done.version)
            finally:
                self._delivering = False


@final
class Step(msgspec.Struct, frozen=True):
    """One undoable change: its ops, and those that revert it, in the order in which to apply them."""

    label: str
    ops: tuple[Op, ...]
    inverse: tuple[Op, ...]


class _Asker(threading.local):
    """The client and the request for which a thread changes a document."""

    who: tuple[str | None, int | None] = (None, None)


@final
class TransactionLog:
    """The changes of one document.

    Attributes:
        content: The current content of the document.
        version: Rises by one with every committed change.
        done: Steps that undo can revert, the oldest first.
        undone: Steps that redo can apply again, the next one last. A new step clears them.
        lock: Held during every change; reentrant.
        delivery: The observers.

    Args:
        content: The initial content of the document.
        types: The catalogue to check against.
        describe: Returns the name of the document for the log.
    """

    def __init__(self, content: Content, types: Types, describe: Callable[[], str]) -> None:
        self.content = content
        self.version = 0
        self.done: Final[list[Step]] = []
        self.undone: Final[list[Step]] = []
        self.lock = fork_safe(threading.RLock())
        self.delivery = Notifications(describe)
        self._types = types
        self._staged: list[Step] | None = None  # the changes of the open transaction
        self._owner: int | None = None  # the thread whose transaction is open
        self._depth = 0
        self._asker = _Asker()

    @property
    def in_transaction(self) -> bool:
        """Whether the calling thread is inside a `transaction`."""
        return self._owner == threading.get_ident()

    @property
    def undo_label(self) -> str | None:
        """Label of the step that undo would revert, or None."""
        return self.done[-1].label if self.done else None

    @property
    def redo_label(self) -> str | None:
        """Label of the step that redo would apply again, or None."""
        return self.undone[-1].label if self.undone else None

    @contextmanager
    def editing(self) -> Iterator[None]:
        """Hold the lock, and notify the observers when the outermost edit of this thread has released it.

        Observers are not called with the lock held: an observer in another thread may be waiting for it.
        """
        try:
            with self.lock:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                    outermost = not self._depth
        finally:
            if outermost:
                self.delivery.deliver()

    @contextmanager
    def asked_by(self, client: str | None, request: int | None) -> Iterator[None]:
        """Note the client and the request in the transactions of the ``with`` block. See `NodeGraph.asked_by`."""
        outer, self._asker.who = self._asker.who, (client, request)
        try:
            yield
        finally:
            self._asker.who = outer

    def apply(
        self,
        ops: Iterable[Op],
        label: str = "",
        base: int | None = None,
        *,
        keeps_proofs: bool = False,
        undoable: bool = True,
    ) -> Transaction:
        """Apply ops, all of them or none; only while `editing`. See `NodeGraph.apply`.

        With `keeps_proofs`, the ops do not change what is computed: nodes move into a group, or out of it.
        Without `undoable`, undo skips them: they must change only what no other op restores, such as places.
        """
        expect(base, (int, NoneType), "base", "a version of the document")
        if base is not None and base > self.version:
            raise StaleVersionError(
                f"The change is based on version {shown(base)}, and this document is only at version {self.version}: "
                "the change was made in another copy. Load the document again."
            )
        step = self.stage(ops, label, keeps_proofs=keeps_proofs)
        if self._staged is not None:
            self._staged.append(step)
            return Transaction(self.version + 1, step.ops, step.label, *self._asker.who)
        if not step.ops:
            return self._transaction(step.ops, step.label)
        if undoable:
            self._record(step)
        return self.commit(step.ops, step.label)

    @contextmanager
    def transaction(self, label: str) -> Iterator[None]:
        """Combine the changes in the ``with`` block to one. See `NodeGraph.transaction`."""
        with self.editing():
            steps: list[Step] = []
            outer, self._staged = self._staged, steps
            self._owner = threading.get_ident()
            try:
                yield
            except BaseException:
                for step in reversed(steps):
                    self.take_back(step.inverse)
                raise
            finally:
                self._staged = outer
                self._owner = None if outer is None else self._owner
            ops = tuple(op for step in steps for op in step.ops)
            inverse = tuple(op for step in reversed(steps) for op in step.inverse)
            if not ops:
                return
            whole = Step(label or (steps[0].label if len(steps) == 1 else label_of(ops)), ops, inverse)
            if outer is not None:
                outer.append(whole)
                return
            self._record(whole)
            self.commit(whole.ops, whole.label)

    def undo(self) -> Transaction:
        """Revert the last change. See `NodeGraph.undo`."""
        return self._restore("undo", self.done, self.undone)

    def redo(self) -> Transaction:
        """Apply the change again that was reverted last. See `NodeGraph.redo`."""
        return self._restore("redo", self.undone, self.done)

    def _record(self, step: Step) -> None:
        self.done.append(step)
        self.undone.clear()

    def _restore(self, verb: Literal["undo", "redo"], steps: list[Step], others: list[Step]) -> Transaction:
        """Undo or redo the last of `steps`, and move it to the `others`."""
        with self.editing():
            if self._staged is not None:
                raise GraphError(f"{verb} is not possible inside a transaction; leave the with block first.")
            if not steps:
                raise GraphError(f"There is nothing to {verb}.")
            step = steps[-1]
            ops = step.inverse if verb == "undo" else step.ops
            self.take_back(ops)
            others.append(steps.pop())
            return self.commit(ops, f"{verb.capitalize()}: {step.label}")

    def stage(self, ops: Iterable[Op], label: str, *, keeps_proofs: bool) -> Step:
        """Apply ops, all of them or none, without a commit; see `apply`."""
        done: list[Op] = []
        inverses: list[list[Op]] = []
        faults: list[GraphError] = []
        try:
            for op in (each for asked in ops for each in self._following(asked)):
                # After a refused value, the other values are checked too; other ops may depend on it.
                if faults and not isinstance(op, SetProperty):
                    break
                try:
                    fitting = checked(self.content, op, self._types)
                    inverses.append(apply_op(self.content, fitting))
                    done.append(fitting)
                except GraphError as fault:
                    faults.append(fault)
                    if not isinstance(op, SetProperty):
                        break
            if faults:
                raise together(faults)
        except BaseException:
            for inverse in reversed(inverses):
                self.take_back(inverse)
            raise
        label = label or label_of(done)
        for mark in () if keeps_proofs else disproved(self.content, done, inverses):
            inverses.append(apply_op(self.content, mark))
            done.append(mark)
        for tie in retied(self.content, done, inverses):
            inverses.append(apply_op(self.content, tie))
            done.append(tie)
        undo = tuple(op for inverse in reversed(inverses) for op in inverse)
        return Step(label, tuple(done), undo)

    def _following(self, op: Op) -> Iterator[Op]:
        expect(op, Op, "An op", "one of pnne_nb.graph.model.ops")
        return following(self.content, op)

    def commit(self, ops: tuple[Op, ...], label: str) -> Transaction:
        """Number what was applied, and tell the observers of it once the document is not edited any more."""
        self.version += 1
        done = self._transaction(ops, label)
        self.delivery.add(done)
        return done

    def _transaction(self, ops: tuple[Op, ...], label: str) -> Transaction:
        return Transaction(self.version, ops, label, *self._asker.who, self.undo_label, self.redo_label)

    def take_back(self, ops: Iterable[Op]) -> None:
        """Apply ops that restore an earlier state, unchecked and without a commit."""
        for op in ops:
            apply_op(self.content, op, restoring=True)


_LABELS: Final[dict[type[Op], tuple[str, str]]] = {
    ops.AddNode: ("Add {name}", "Add {} nodes"),
    ops.RemoveNode: ("Remove {name}", "Remove {} nodes"),
    ops.RenameNode: ("Rename {name} to {new_name}", "Rename {} nodes"),
    ops.SetProperty: ("Set {node}.{property} to {value}", "Set {} properties"),
    ops.ResetProperty: ("Reset {node}.{property}", "Reset {} properties"),
    ops.MoveNode: ("Move {name}", "Move {} nodes"),
    ops.CollapseNode: ("{verb} {name}", "Collapse {} nodes"),
    ops.SetOrigin: ("Mark {name}", "Mark {} nodes"),
    ops.Connect: ("Connect {source} → {target}", "Connect {} ports"),
    ops.Disconnect: ("Disconnect {source} → {target}", "Remove {} edges"),
    ops.AddGraph: ("Add definition {graph}", ""),
    ops.RemoveGraph: ("Remove definition {graph}", ""),
    ops.AddFrame: ("Frame {title}", ""),
    ops.ChangeFrame: ("Change frame {name}", ""),
    ops.RemoveFrame: ("Remove frame {name}", ""),
    ops.RenameDocument: ("Name the graph {name}", ""),
    ops.SetSize: ("Set the size {name} to {value}", ""),
}
"""The label of one op, and that of several of its kind; without one, the first op is named."""


def label_of(done: Sequence[Op]) -> str:
    """Return the label of a transaction, e.g. ``"Connect conv1 → relu1"`` or ``"Move 3 nodes"``."""
    if len(done) == 1:
        return _one(done[0])
    sizes = [op for op in done if isinstance(op, ops.SetSize)]
    if sizes and not any(isinstance(op, ops.AddNode) for op in done):
        return _one(next((op for op in sizes if op.value is None), sizes[0]))
    # What a gesture is about: the nodes it adds or removes rather than the edges that come along.
    for leading in (ops.AddNode, ops.RemoveNode):
        found = [op for op in done if isinstance(op, leading)]
        if found and not any(isinstance(op, ops.AddNode) for op in done if leading is ops.RemoveNode):
            return _one(found[0]) if len(found) == 1 else _LABELS[leading][1].format(len(found))
    kinds = {type(op) for op in done}
    if len(kinds) == 1 and (many := _LABELS[kinds.pop()][1]):
        return many.format(len(done))
    return f"{_one(done[0])} and {len(done) - 1} more" if done else "Nothing"


def _one(op: Op) -> str:
    words = {field: getattr(op, field) for field in op.__struct_fields__}
    match op:
        case ops.SetSize(value=None):
            return f"Remove the size {op.name}"
        case ops.SetProperty() | ops.SetSize():
            words["value"] = shown(op.value, 40)
        case ops.CollapseNode():
            words["verb"] = "Collapse" if op.collapsed else "Expand"
        case ops.Connect() | ops.Disconnect():
            words |= {"source": split_port(op.source)[0], "target": split_port(op.target)[0]}
        case ops.AddFrame():
            words["title"] = op.title or op.name
        case _:
            pass
    return _LABELS[type(op)][0].format_map(words)


def following(content: Content, op: Op) -> Iterator[Op]:
    """Yield the ops that an op consists of, each to be applied before the next is asked for.

    A changed size changes all that is calculated from it. Where a size is removed, its number takes its place.
    """
    if not isinstance(op, SetSize):
        yield op
    elif op.value is None:
        number = content.sizes.get(op.name)
        if number is not None:

            def without(value: Calculated) -> int:
                text = written_out(value.text, op.name, int(number))
                result = calculated(text, content.sizes)
                return int(value) if result is None else result

            for name, value in list(content.sizes.items()):
                if _uses(value, (op.name,)):
                    yield SetSize(name, mapped(value, without))
            yield from _users(content, (op.name,), lambda value: mapped(value, without))
        yield op
    else:
        yield op
        stale = {op.name: None}
        while fresh := [name for name, value in content.sizes.items() if name not in stale and _uses(value, stale)]:
            stale.update(dict.fromkeys(fresh))
        del stale[op.name]
        done: set[str] = set()
        while ready := [
            name for name in stale if name not in done and not _uses(content.sizes[name], stale.keys() - done)
        ]:
            for name in ready:
                yield SetSize(name, content.sizes[name])
            done.update(ready)
        yield from _users(content, (op.name, *stale), lambda value: value)


def _users(content: Content, names: Container[str], change: Callable[[object], object]) -> Iterator[Op]:
    for graph in content.graphs.values():
        for node in list(graph.nodes.values()):
            for name, value in node.properties.items():
                if _uses(value, names):
                    yield SetProperty(node.name, name, change(value), graph.id)


def _uses(value: object, names: Container[str]) -> bool:
    return any(name in names for name in names_used(value))
