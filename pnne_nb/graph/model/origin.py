"""The origin of an imported node: the proof by comparison with the original, and facts about the original."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec

from pnne_nb.graph.schema.values import Dtype

DIGEST = "sha256:"
"""What the digest of a tensor's values begins with."""

Proof: TypeAlias = Literal["equal", "edited", "opaque"]
"""Whether the node equals the original, equalled it before a change, or keeps the original's code."""


FreeSizes: TypeAlias = tuple[tuple[str, int] | None, ...]
"""For each axis of an Input the name of its size, and another value of it with which the import was proved too; None for an
axis that only the example's size was proved of."""


class _StructMapping(type(msgspec.Struct), ABCMeta):  # type: ignore[misc]  # msgspec's stubs do not name its metaclass
    """The metaclass of a struct that is also a mapping."""


@final
class Origin(
    msgspec.Struct, Mapping[str, Any], frozen=True, omit_defaults=True, forbid_unknown_fields=True,
    metaclass=_StructMapping,
):  # fmt: skip
    """The origin of an imported node, and its proof.

    It is also a read-only mapping, as in a file: ``node.origin["proof"]``. Fields with their default are left out.

    Attributes:
        proof: ``"edited"`` if the node, its inputs or its inside was changed after it was proved equal.
        reason: Why it stayed one opaque node, or why nothing is proved: the original failed with the example. Of an input,
            how far the original differs from itself. Else empty.
        member: Its place among the parameters, buffers and submodules of the module around it.
        held: The attribute path of its module, if that is not its name; empty if the module is the model itself.
        assumes: Assumptions of the import about an input, as text: ``"x.shape[1] is 3"``.
        omitted: Names of the arguments of the original that the example left out, kept with the last Input.
        variables: Names of its outputs in the original's code, by port.
        ties: Its tensors that belong to other nodes: their path below this node, and the path below the model.
        frozen: Paths below it of modules that were not trained and are no nodes of their own. In older files, of any:
            an empty path is the node itself.
        dtype: The element type of its layer's weights, if that is not float32.
        twice: Whether computing it again, for a checkpoint, changes its buffers again.
        initial: ``"absent"`` if the tensor has too many values for the document; of a fixed table, the digest of its
            values, ``"sha256:…"``, which a file beside the graph file has.
        called: Whether the original calls it.
        whole: Whether it is the whole module that was imported.
        sizes: Of an Input, the sizes that the proof varied; empty if it varied none.
    """

    proof: Proof
    reason: str = ""
    member: int | None = None
    held: str | None = None
    assumes: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    ties: dict[str, str] = {}
    frozen: tuple[str, ...] = ()
    dtype: Dtype | None = None
    twice: bool = False
    initial: str | None = msgspec.field(default=None, name="values")  # `values` is a mapping's method
    called: bool = True
    whole: bool = False
    sizes: FreeSizes = ()

    def __getitem__(self, key: str) -> Any:
        return self._fields()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __len__(self) -> int:
        return len(self._fields())

    __eq__ = Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]  # like every mapping

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields
