"""Describes a shape or element type that does not fit a node, and the value that would fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pnne_nb.catalog.operators import CHECK, CHECK_STRUCTURE
from pnne_nb.catalog.tables.overrides import AUTOMATIC, SizeOf
from pnne_nb.compiler.ir.bind import automatic_properties
from pnne_nb.compiler.shapes.cost import TooManyPiecesError
from pnne_nb.compiler.shapes.symbolic import Abstract, Meta
from pnne_nb.errors import Diagnostic, Fix, Severity
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.values import Value, to_json

_INTEGER = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
# What torch says when it needs the data, which a trial does not have.
_NEEDS_DATA = ("meta tensor", "meta Long tensor", "data-dependent", "Cannot copy out", "_local_scalar_dense")


class NodeFinding(msgspec.Struct, frozen=True):
    """A diagnostic without the path of its node.

    Attributes:
        code: As `Diagnostic.code`.
        message: As `Diagnostic.message`.
        port: As `Diagnostic.port`.
        hint: As `Diagnostic.hint`.
        severity: As `Diagnostic.severity`.
        property: Property that would repair it.
        value: What to set it to, in JSON form.
        dtype: Element type that would fit at the port.
    """

    code: str
    message: str
    port: str | None = None
    hint: str | None = None
    severity: Severity = "error"
    property: str | None = None
    value: object = None
    dtype: str | None = None

    def at(self, node: str) -> Diagnostic:
        """Return the diagnostic for the node at a path."""
        fix = None
        if self.property is not None:
            fix = Fix(node, self.property, self.value, f"Set {self.property} to {_shown(self.value)}")
        return Diagnostic(self.code, self.message, node, self.port, self.hint, self.severity, fix)


def dtype_findings(spec: NodeSpec, inputs: Mapping[str, Abstract]) -> Iterator[NodeFinding]:
    """Yield findings for inputs of an element type that the port does not accept."""
    for port in spec.inputs:
        value = inputs.get(port.name)
        if value is None or port.dtypes == "any" or value.dtype is None:
            continue
        integer = value.dtype in _INTEGER
        floating = value.dtype.startswith(("float", "bfloat", "complex"))
        given = f"{value} {value.dtype}"
        if port.dtypes == "floating" and not floating:
            dtype, said = "float32", f"{spec.type} computes with floating-point numbers, but {port.name} is {given}."
        elif port.dtypes == "integer" and not integer:
            dtype, said = "int64", f"{spec.type} needs integers at {port.name}, and gets {given}."
        else:
            continue
        hint = f"Convert it first, or set the dtype of the Input it comes from to {dtype!r}."
        yield NodeFinding("dtype-mismatch", said, port.name, hint, dtype=dtype)


def inferred_sizes(
    spec: NodeSpec, values: Mapping[str, Value], ports: Sequence[Abstract | None], trials: int
) -> tuple[dict[str, Value], list[NodeFinding]]:
    """Return the sizes that are left ``"auto"``, and a finding for each that cannot be inferred."""
    resolved: dict[str, Value] = {}
    findings: list[NodeFinding] = []
    for name in automatic_properties(spec, values):
        rule = AUTOMATIC.get((spec.type, name))
        try:
            if rule is None:
                raise ValueError("there is no rule for it")
            first, *others = {_size(rule, ports, trial) for trial in range(trials)}
            if others:
                raise ValueError("its size is not the same for every input")
            resolved[name] = first
        except ValueError as error:
            known = bool(ports) and ports[0] is not None
            findings.append(
                NodeFinding(
                    "auto-unresolved",
                    f"{name} is 'auto' and cannot be inferred: {error}.",
                    hint=f"Set {name}."
                    if known
                    else f"Connect it, give the graph's Input a shape and repair the nodes between them, or set {name}.",
                    severity="error" if known else "warning",
                )
            )
    return resolved, findings


def size_findings(
    spec: NodeSpec, values: Mapping[str, Value], ports: Sequence[Abstract | None]
) -> Iterator[NodeFinding]:
    """Yield findings for properties that differ from the sizes of the inputs, with the value that fits."""
    for prop in spec.properties:
        rule = AUTOMATIC.get((spec.type, prop.name))
        value = values.get(prop.name, prop.default)
        if rule is None or value is None or isinstance(value, str) or (spec.type == "PReLU" and value == 1):
            continue
        given = value[-1] if isinstance(value, tuple) and value else value
        try:
            wanted = _size(rule, ports)
        except ValueError:
            continue
        abstract = ports[rule.input]
        if not isinstance(given, int) or given == wanted or abstract is None:
            continue
        fixed = len({seen.shape[rule.axis] for seen in abstract.trials if isinstance(seen, Meta)}) == 1
        if not fixed:
            size = abstract.sizes[rule.axis]
            yield NodeFinding(
                "shape-mismatch",
                f"{prop.name} is {given}, and the input {abstract} has {size} there, which is not a fixed number.",
                spec.inputs[rule.input].name,
                "Make that size a number, or bring it to one, for instance by adaptive pooling.",
            )
            continue
        fitting = (*value[:-1], wanted) if isinstance(value, tuple) else wanted
        yield NodeFinding(
            "shape-mismatch",
            f"{prop.name} is {given}, and the input {abstract} has {wanted} there.",
            spec.inputs[rule.input].name,
            f"Set {prop.name} to {_shown(fitting)}, or change what comes in.",
            property=prop.name,
            value=to_json(fitting),
        )


def axis_findings(
    spec: NodeSpec, values: Mapping[str, Value], first: Abstract | None, outputs: Iterable[Abstract]
) -> Iterator[NodeFinding]:
    """Yield a finding for an axis out of range; on meta tensors, softmax and others do not check it."""
    axis = values.get("dim")
    own = not spec.target.startswith("torch.") and spec.kind != "method"
    if own or not isinstance(axis, int) or first is None or first.shape is None:
        return
    # That of a result counts too: of unsqueeze, the axis is a new one.
    rank = max(len(value.sizes) for value in (first, *outputs) if value.shape is not None) or 1
    if not -rank <= axis < rank:
        yield NodeFinding(
            "shape-mismatch",
            f"dim is {axis}, and the input {first} has {len(first.sizes)} axes.",
            spec.inputs[0].name,
            f"Set dim to a number from {-rank} to {rank - 1}.",
        )


def failure_finding(
    spec: NodeSpec, inputs: Mapping[str, Abstract], error: Exception, *, building: bool = False
) -> NodeFinding:
    """Return the finding for an exception of a trial."""
    text = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    if isinstance(error, NotImplementedError) or any(sign in str(error) for sign in _NEEDS_DATA):
        return NodeFinding("shape-unknown", "The shape of the result depends on the data.", severity="info")
    if isinstance(error, TooManyPiecesError):
        return NodeFinding("too-many-pieces", f"{text}.", hint="Make fewer and larger pieces.")
    if spec.type in (CHECK, CHECK_STRUCTURE):
        return NodeFinding("check-failed", f"{text}.")
    own = not spec.target.startswith("torch.") and spec.kind == "module"
    if building:
        severity: Severity = "warning" if own else "error"
        return NodeFinding(
            "bad-properties", f"{spec.type} cannot be built with these properties: {text}.", severity=severity
        )
    shown = ", ".join(f"{name} {value}" for name, value in inputs.items())
    return NodeFinding("shape-mismatch", f"The inputs do not fit {spec.type}: {shown}. Torch says: {text}.")


def _size(rule: SizeOf, ports: Sequence[Abstract | None], trial: int = 0) -> int:
    """Return the size that a rule names.

    Raises:
        ValueError: If it is not known; the text completes "cannot be inferred:".
    """
    value = ports[rule.input] if rule.input < len(ports) else None
    seen = None if value is None else value.at(trial)
    shape = seen.shape if isinstance(seen, Meta) else None
    if shape is None:
        raise ValueError("the shape of its input is not known")
    needed = rule.axis + 1 if rule.axis >= 0 else -rule.axis
    if len(shape) < needed:
        raise ValueError(f"the input has {len(shape)} axes, {needed} are needed")
    return shape[rule.axis]


def _shown(value: object) -> str:
    return f"({', '.join(map(str, value))},)" if isinstance(value, (list, tuple)) and len(value) == 1 else str(value)
