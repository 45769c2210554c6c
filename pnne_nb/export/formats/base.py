"""The protocol of an export format: it writes a model to a file, and its own runtime opens the file.

A process that proves a file imports this module and the format's own. Neither imports torch at the top, so that such a
process holds no torch unless the runtime is torch's.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import Diagnostic, ExportError, PnneError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from pnne_nb.graph.document import NodeGraph

METADATA_PREFIX = "pnne_nb."
"""Before the keys that this package writes into the metadata of a file."""

CONTENT = "pnne_nb.json"
"""The extra file of an exported program that holds names, metadata and the nodes of its tensors."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of an exported file.

    Attributes:
        name: The name of the Input or Output node.
        dtype: The name of the element type, as torch writes it without ``torch.``.
        shape: One entry per dimension: a fixed size, or the name of a free one.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A model with everything that a format needs to write a file.

    Attributes:
        model: A copy of the module in eval mode, on the CPU, that belongs to the export alone.
        inputs: The arguments of ``forward``, in order; a name in a shape is a size that should stay free.
        outputs: The names of the outputs, in order.
        example: One tensor for each input. No size is 0 or 1, and no two free sizes are equal.
        graph: The document that the model was compiled from, if there is one.
        limits: The smallest and the largest value that a free size should take, where the caller said so.
        opset: The version of the ONNX operator set that was asked for, if any.
        metadata: What the file should carry, by key.
    """

    model: nn.Module
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[str, ...]
    example: tuple[Tensor, ...]
    graph: NodeGraph | None = None
    limits: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    opset: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeTensor:
    """A tensor inside a file that a node passes to another node or to an output.

    Attributes:
        tensor: The tensor's name in the file.
        node: The path of the node, ``"block.conv1"``.
    """

    tensor: str
    node: str


@dataclass(frozen=True, slots=True)
class FreeSize:
    """The treatment of a size that the document leaves free.

    Attributes:
        name: Its name in the document.
        how: ``"named"``: free under its own name, as declared; ``"automatic"``: free, but the exporter had to work out
            the dimension itself; ``"fixed"``: the file takes one size only.
        value: The one size that the file takes, if it is fixed.
        smallest: The smallest size that the file takes.
        largest: The largest one; None if there is no limit.
        nodes: The paths of the nodes that fixed it.
    """

    name: str
    how: Literal["named", "automatic", "fixed"]
    value: int | None = None
    smallest: int = 1
    largest: int | None = None
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.how == "fixed":
            by = f" by {', '.join(self.nodes)}" if self.nodes else ""
            return f"{self.name} fixed to {self.value}{by}"
        limits = f", from {self.smallest}" if self.smallest > 1 else ""
        limits += f", up to {self.largest}" if self.largest is not None else ""
        return f"{self.name} free{' (worked out by the exporter)' if self.how == 'automatic' else ''}{limits}"


@dataclass(frozen=True, slots=True)
class FixedAxis:
    """An axis of an input at which a file takes one size only, because the document has a number there.

    Attributes:
        input: The name of the input.
        axis: The place of the axis, from 0.
        value: The size that the file takes.
        name: What the size can be called to leave it free, if the model itself takes other sizes there; else empty.
    """

    input: str
    axis: int
    value: int
    name: str = ""

    def __str__(self) -> str:
        return f"{self.input}.shape[{self.axis}] = {self.value}"


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A format's information about a written file.

    Attributes:
        sizes: What became of each free size of the request.
        findings: What the file says in another way than the drawing: operations that nodes are decomposed into.
        notes: What a person should know, one sentence each.
    """

    sizes: tuple[FreeSize, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


class ExportedModel(Protocol):
    """A file opened by its own runtime."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...

    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """Return the outputs by name for `inputs` by name, and the watched tensors by their names in the file."""

    def close(self) -> None:
        """Free the runtime's resources."""


class ExportFormat(ABC):
    """One kind of file. A new kind is a module of this folder, and an entry in ``FORMATS``.

    Attributes:
        name: What ``format=`` calls it.
        suffixes: The ends of file names that mean this format, the usual one first.
        extra: The extra of this package that installs what the format needs; empty if nothing is.
        packages: The packages that the format imports, one of which is missing without the extra.
        runs_code: Whether opening a file can run code that is in it.
        slow: Whether writing takes minutes, because a compiler runs; a check then only traces the model.
        deprecated: What to use instead, if torch gives the format up; else empty.
        outputs_only: Why no drawn node can be compared, only outputs; empty where nodes are.
        unchecked: What the format's own runtime does at a size that the file does not take; empty if it refuses it.
    """

    name: str
    suffixes: tuple[str, ...]
    extra: str = ""
    packages: tuple[str, ...] = ()
    runs_code: bool = False
    slow: bool = False
    deprecated: str = ""
    outputs_only: str = ""
    unchecked: str = ""

    @abstractmethod
    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        """Write the file.

        Raises:
            ExportError: If the model has no form in this format, with diagnostics at the nodes.
        """

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:  # noqa: ARG002  # for formats that keep such names
        """Return the tensors of a file that are outputs of drawn nodes; none if the format keeps no such names."""
        return ()

    @abstractmethod
    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> ExportedModel:
        """Open a file with its own runtime.

        Args:
            path: The file.
            watched: Names of tensors inside the file that ``run`` returns too; none if the format keeps no such names.
            given: Names of tensors inside the file that ``run`` takes as inputs instead of computing them: random
                numbers.

        Raises:
            ExportError: If it is no such file, or a package is missing.
        """


@final
class WholeProgram:
    """An open file that its runtime runs as a whole, on tensors.

    Args:
        content: What the file says of itself, by the names of the attributes.
        call: Runs the file on tensors, in the order of the inputs.
        failure: What is said before the message of a runtime that cannot run the file.
    """

    def __init__(self, content: Mapping[str, Any], call: Callable[..., Any], failure: str) -> None:
        self.metadata: Mapping[str, str] = content["metadata"]
        self.inputs = tensor_infos(content["inputs"])
        self.outputs = tensor_infos(content["outputs"])
        self._call = call
        self._failure = failure

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        import torch  # noqa: PLC0415  # a process that proves a file imports torch only where that is the runtime

        try:
            with torch.no_grad():
                found = self._call(*(as_tensor(inputs[info.name], info.dtype) for info in self.inputs))
        except Exception as error:
            said = error if isinstance(error, PnneError) else summary(error)
            raise ExportError(f"{self._failure}: {said}") from error
        leaves = torch.utils._pytree.tree_leaves(found)
        return {info.name: as_array(value) for info, value in zip(self.outputs, leaves, strict=True)}

    def close(self) -> None:
        del self._call


def tensor_infos(entries: Iterable[tuple[str, str, Sequence[int | str]]]) -> tuple[TensorInfo, ...]:
    """Return inputs or outputs from what a file says of them: name, element type and shape."""
    return tuple(TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in entries)


def summary(error: Exception) -> str:
    """Return the line of a foreign error that says what happened."""
    lines = str(error).strip().splitlines() or [""]
    return lines[-1 if "TorchScript interpreter" in lines[0] else 0][:300]


def not_written(code: str, said: str, error: Exception) -> ExportError:
    """Return the error for a model that a foreign compiler refuses."""
    message = f"{said}: {summary(error)}"
    return ExportError(message, [Diagnostic(code, message, hint="Export as 'pt2' or 'onnx'.")])


def free_sizes(inputs: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Return the names of the free sizes, in the order in which the inputs name them."""
    return tuple(dict.fromkeys(size for info in inputs for size in info.shape if isinstance(size, str)))


def free_sizes_in(inputs: Iterable[TensorInfo], batch: Iterable[Tensor]) -> dict[str, int]:
    """Return the values that the free sizes have in a batch, by name."""
    return {
        size: found
        for info, tensor in zip(inputs, batch, strict=True)
        for size, found in zip(info.shape, tensor.shape, strict=True)
        if isinstance(size, str)
    }


def with_fixed(inputs: Iterable[TensorInfo], sizes: Mapping[str, int]) -> tuple[TensorInfo, ...]:
    """Return inputs in which the free sizes with a value have that value."""

    def size(found: int | str) -> int | str:
        return sizes.get(found, found) if isinstance(found, str) else found

    return tuple(replace(info, shape=tuple(map(size, info.shape))) for info in inputs)


def numbered_axes(inputs: Sequence[TensorInfo]) -> tuple[FixedAxis, ...]:
    """Return the axes of inputs that have a number instead of a name."""
    return tuple(
        FixedAxis(info.name, place, size)
        for info in inputs
        for place, size in enumerate(info.shape)
        if isinstance(size, int)
    )


def batch_size_of(inputs: Iterable[TensorInfo]) -> str | None:
    """Return the name of the batch's size: the first one that an input has at its first axis."""
    return next((info.shape[0] for info in inputs if info.shape and isinstance(info.shape[0], str)), None)


@contextmanager
def in_memory(path: Path) -> Iterator[io.BytesIO]:
    """Yield a buffer for torch, and write it to a file at the end, because torch crashes Python on a full disk.

    Raises:
        OSError: If the file cannot be written.
    """
    buffer = io.BytesIO()
    yield buffer
    path.write_bytes(buffer.getbuffer())


def as_array(value: Tensor) -> NDArray[np.generic]:
    """Return a tensor as an array; bfloat16, which NumPy lacks, becomes float32."""
    plain = value.detach().cpu()
    array: NDArray[np.generic] = (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()
    return array


def as_tensor(array: NDArray[np.generic], dtype: str) -> Tensor:
    """Return an array as a tensor of an element type, which `as_array` may have replaced."""
    import torch  # noqa: PLC0415  # as above

    tensor: Tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor.to(getattr(torch, dtype))
