"""Where an imported node came from: what the comparison with the original proved, and what the node keeps of it."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec

from pnne_nb.graph.schema.values import Dtype

Proof: TypeAlias = Literal["equal", "edited", "opaque"]
"""Whether it computed the same as the original, did so before it was changed, or keeps its own code."""


class _StructMapping(type(msgspec.Struct), ABCMeta):  # type: ignore[misc]  # msgspec's stubs do not name its metaclass
    """The metaclass of a struct that is also a mapping."""


@final
class Origin(
    msgspec.Struct, Mapping[str, Any], frozen=True, omit_defaults=True, forbid_unknown_fields=True,
    metaclass=_StructMapping,
):  # fmt: skip
    """Where an imported node came from, and its proof.

    It is also a read-only mapping of what a file holds: ``node.origin["proof"]``. What stands at its default is left out.

    Attributes:
        proof: What is known of it: ``"edited"`` says that it, what feeds it, or what is inside it has been changed since
            it was proved equal.
        reason: Why it stayed one opaque node, or why nothing is proved: the original failed with the example. Else empty.
        member: Its place among the parameters, buffers and submodules of the module that holds it.
        held: The attribute path that holds its module, if that is not its name; empty if the model itself is the module.
        assumes: What the import took for granted about an input, as text: ``"x.shape[1] is 3"``.
        variables: The names that the original's code gives its outputs, by port.
        ties: Its tensors that other nodes hold: their path below this node, and the path below the model.
        frozen: Paths below it of the modules that are not trained; an empty path is the node itself.
        dtype: The element type that its layer was made of, if that is not float32.
        twice: Whether computing it again, for a checkpoint, changes its buffers again.
        initial: ``"absent"`` if the document does not keep the values of the buffer, which are too many.
        called: Whether the original calls it.
        whole: Whether it stands for the whole module that was imported.
    """

    proof: Proof
    reason: str = ""
    member: int | None = None
    held: str | None = None
    assumes: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    ties: dict[str, str] = {}
    frozen: tuple[str, ...] = ()
    dtype: Dtype | None = None
    twice: bool = False
    initial: Literal["absent"] | None = msgspec.field(default=None, name="values")  # `values` is a mapping's method
    called: bool = True
    whole: bool = False

    def __getitem__(self, key: str) -> Any:
        return self._fields()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __len__(self) -> int:
        return len(self._fields())

    __eq__ = Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields
