"""Proves a written file: a few batches in its runtime, one of them with the tensors of every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pnne_nb.compiler.analysis.nan_origin import UNWRITTEN
from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.formats.base import ExportFormat, FreeSize, NodeTensor, as_array, batch_size_of, free_sizes_in
from pnne_nb.export.proof.eager_run import EagerReference, Model, Value
from pnne_nb.export.proof.fresh_process import Arrays, ProofProcess, Run, run_file
from pnne_nb.export.proof.parity import Comparison, Difference, NodeParity, Tolerance, compare, histograms
from pnne_nb.export.subject.example_batches import BatchMaker
from pnne_nb.export.subject.subject import Subject

BATCH_SIZES = (1, 2, 7)
"""Numbers of samples that every file is run with, if its batch size is free."""


class WrongSize(NamedTuple):
    """A value of a free size at which a file fails or differs.

    Attributes:
        value: The value; no larger one was wrong.
        node: The node at which it does, if one is known.
    """

    value: int
    node: str | None


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof.

    Attributes:
        nodes: How well each drawn node agrees, in the order in which the nodes run.
        comparisons: Every batch that the outputs were compared on.
        random: Nodes that draw random numbers.
        exempt: Nodes that were not compared because of random numbers.
        wrong_sizes: Free sizes at which the file fails or differs, although the model takes them.
        notes: What a person should know.
        inferences: Runs of the file for its outputs.
        sessions: Openings of the file with the tensors of nodes as outputs.
    """

    nodes: Mapping[str, NodeParity]
    comparisons: tuple[Comparison, ...]
    random: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    wrong_sizes: Mapping[str, WrongSize] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    inferences: int = 0
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class ProofBatch:
    """Inputs to compare on.

    Attributes:
        what: What they are, in words.
        tensors: In the order of the inputs.
        sizes: The values of the free sizes that are others than in the example.
    """

    what: str
    tensors: Sequence[Tensor]
    sizes: Mapping[str, int]


def prove(
    subject: Subject,
    format: ExportFormat,
    path: Path,
    sizes: Sequence[FreeSize],
    maker: BatchMaker,
    example: Mapping[str, int],
    data: Sequence[Tensor] | None,
    tolerance: Tolerance,
) -> Proof:
    """Compare a file with the model: outputs for a few batches, and every node for one batch.

    Args:
        subject: The model.
        format: The format of the file.
        path: The file.
        sizes: What became of each free size.
        maker: Makes inputs of other sizes.
        example: The sizes that the file was made with.
        data: A batch of real inputs, if there is one.
        tolerance: An absolute distance, or ``"auto"``.

    Raises:
        ExportError: If the runtime cannot run the file at the sizes that it was made with.
    """
    model = Model(subject.model, subject.outputs)
    main = ProofBatch("example", maker.tensors(example), {})
    if data is not None:
        other = {name: n for name, n in free_sizes_in(subject.inputs, data).items() if n != example[name]}
        main = ProofBatch("data", data, other)
    notes: list[str] = []
    others = _other_batches(maker, subject, sizes, example, notes)
    reference = model.run(main.tensors, nodes=True)
    if not any(np.isfinite(value.value).any() for value in reference.outputs.values()):
        notes.append(f"The model gives no finite value for the {main.what}, so that run proves little.")
    tensors = format.node_tensors(path)
    given, exempt = _random_tensors(reference, tensors, subject.outputs)
    batches = [*others, main]
    references = [*(model.run(each.tensors, nodes=bool(given)) for each in others), reference]
    fed = [_arrays(subject, batch, each, given) for batch, each in zip(batches, references, strict=True)]
    sessions = [ProofProcess(fed, (), tuple(given), bool(reference.changed))]
    if tensors:
        watched = tuple(each.tensor for each in tensors if each.tensor not in given)
        sessions.append(ProofProcess([fed[-1]], watched, tuple(given)))
    runs = run_file(format, path, sessions)
    if (failed := runs[0][-1]).error is not None and not main.sizes:
        raise _refusal(subject, failed.error, failed.node)
    comparisons = [
        _compare_outputs(batch.what, run, each, tolerance, uncompared=bool(exempt))
        for batch, run, each in zip(batches, runs[0], references, strict=True)
    ]
    bad = [batch for batch, done in zip(batches, comparisons, strict=True) if not done.ok]
    suspects: dict[str, int] = {}
    for name, value in (pair for batch in bad for pair in batch.sizes.items()):
        suspects[name] = max(value, suspects.get(name, value))
    wrong: Mapping[str, WrongSize] = {}
    if suspects and (comparisons[-1].ok or main.sizes):  # a file that is wrong at the example's sizes has another fault
        wrong = _wrong_sizes(subject, model, format, path, maker, example, tensors, suspects, tolerance)
    nodes = compare_nodes(subject, reference, tensors, runs[1][0], tolerance, exempt) if tensors else {}
    if not tensors and subject.graph is not None:
        notes.append(f"Only outputs were compared, because {format.outputs_only or 'no node has a tensor of its own'}.")
    return Proof(
        nodes,
        tuple(comparisons),
        tuple(sorted(reference.random)),
        exempt,
        wrong,
        tuple(notes),
        len(batches),
        len(sessions) - 1,
    )


def _refusal(subject: Subject, said: str, node: str | None) -> ExportError:
    """Return a message about a file that its runtime cannot run, and what to do."""
    tensors = [*subject.model.parameters(), *subject.model.buffers()]
    found = {str(tensor.dtype).removeprefix("torch.") for tensor in tensors if tensor.is_floating_point()}
    others = sorted((found | {info.dtype for info in subject.inputs}) & {"float64", "float16", "bfloat16"})
    hint = "Draw the node from others, export as 'pt2', or fix a size: sizes={...}."
    if others:
        hint = f"The runtime may have it in float32 only, not in {others[0]}: export model.float(), or export as 'pt2'."
    return ExportError(f"{said}. {hint}", [Diagnostic("not-runnable", said, node, hint=hint)])


def _other_batches(
    maker: BatchMaker, subject: Subject, sizes: Sequence[FreeSize], example: Mapping[str, int], notes: list[str]
) -> list[ProofBatch]:
    """Return batches at other sizes: 1, 2 and 7 samples, and two other values of every other free size."""
    free = {size.name: size for size in sizes if size.how != "fixed"}
    batch = batch_size_of(subject.inputs)
    values = {
        name: maker.other_values(name, example, size.smallest, size.largest)
        for name, size in free.items()
        if name != batch
    }
    for name, found in values.items():
        if not found:
            notes.append(f"The model took no other value of {name} than {example[name]} that was tried.")
    made = []
    for place, count in enumerate(BATCH_SIZES):
        chosen = {name: found[place] for name, found in values.items() if place < len(found)}
        if batch in free and free[batch].smallest <= count <= (free[batch].largest or count):
            chosen = {batch: count, **chosen}
        sizes_now = {**example, **chosen}
        if not chosen:
            continue
        if not maker.accepts(sizes_now):
            chosen = {name: value for name, value in chosen.items() if maker.accepts({**example, name: value})}
            chosen = dict(list(chosen.items())[:1])
            if batch in free and batch not in chosen:
                notes.append(f"The model itself takes no {batch}={count}.")
            if not chosen:
                continue
            sizes_now = {**example, **chosen}
        words = ", ".join(f"{name}={value}" for name, value in chosen.items())
        made.append(ProofBatch(words, maker.tensors(sizes_now), chosen))
    return made


def _arrays(subject: Subject, batch: ProofBatch, reference: EagerReference, given: Mapping[str, str]) -> Arrays:
    arrays = {info.name: as_array(tensor) for info, tensor in zip(subject.inputs, batch.tensors, strict=True)}
    return {**arrays, **{tensor: reference.nodes[node][0].value for tensor, node in given.items()}}


def _random_tensors(
    reference: EagerReference, tensors: Sequence[NodeTensor], outputs: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the file's random tensors with their nodes, and the nodes that cannot be compared.

    A node that only draws is given the numbers of the model. If it does more, or the file has no tensor of it, what
    comes after it cannot be compared.
    """
    given: dict[str, str] = {}
    stuck = False
    for node in sorted(reference.random):
        own = [each.tensor for each in tensors if each.node == node]
        if len(own) == 1 and own[0] not in outputs and len(reference.nodes.get(node, ())) == 1:
            given[own[0]] = node
        else:
            stuck = True
    if not stuck:
        return given, ()
    order = list(reference.nodes)
    first = min((order.index(node) for node in reference.random if node in reference.nodes), default=0)
    return {}, tuple(order[first:]) or tuple(sorted(reference.random))


def _compare_outputs(
    what: str, run: Run, reference: EagerReference, tolerance: Tolerance, *, uncompared: bool
) -> Comparison:
    if run.error is not None:
        return Comparison(what, {}, run.error)
    found: dict[str, Difference] = {}
    for name, value in reference.outputs.items():
        if name not in run.outputs:
            return Comparison(what, {}, f"the file has no output {name!r}")
        difference = compare(run.outputs[name], value, tolerance)
        if uncompared and difference.shape is None:  # random numbers: only their shape can be compared
            difference = replace(difference, error=0.0, ratio=0.0)
        found[name] = difference
    return Comparison(what, found)


def _wrong_sizes(
    subject: Subject,
    model: Model,
    format: ExportFormat,
    path: Path,
    maker: BatchMaker,
    example: Mapping[str, int],
    tensors: Sequence[NodeTensor],
    suspects: Mapping[str, int],
    tolerance: Tolerance,
) -> dict[str, WrongSize]:
    """Return the free sizes that the file does not accept, by trying each of `suspects` alone, and the failing nodes.

    A file that is wrong at the sizes of the example too has another fault: then there are none.
    """
    batches = [ProofBatch(name, maker.tensors({**example, name: value}), {}) for name, value in suspects.items()]
    batches.insert(0, ProofBatch("example", maker.tensors(example), {}))
    references = [model.run(each.tensors, nodes=bool(tensors)) for each in batches]
    given, _ = _random_tensors(references[0], tensors, subject.outputs)
    fed = [_arrays(subject, batch, each, given) for batch, each in zip(batches, references, strict=True)]
    watched = tuple(each.tensor for each in tensors if each.tensor not in given)
    (runs,) = run_file(format, path, [ProofProcess(fed, watched, tuple(given), bool(references[0].changed))])
    if runs[0].error is not None:
        raise _refusal(subject, runs[0].error, runs[0].node)
    if not _compare_outputs("", runs[0], references[0], tolerance, uncompared=False).ok:
        return {}
    wrong: dict[str, WrongSize] = {}
    for batch, run, reference in list(zip(batches, runs, references, strict=True))[1:]:
        if _compare_outputs("", run, reference, tolerance, uncompared=False).ok:
            continue
        nodes = compare_nodes(subject, reference, tensors, run, tolerance, ()) if run.error is None else {}
        node = run.node or next((each.node for each in nodes.values() if not each.ok), None)
        wrong[batch.what] = WrongSize(suspects[batch.what], node)
    return wrong or {name: WrongSize(value, None) for name, value in suspects.items()}


def compare_nodes(
    subject: Subject,
    reference: EagerReference,
    tensors: Sequence[NodeTensor],
    run: Run,
    tolerance: Tolerance,
    exempt: Sequence[str],
) -> dict[str, NodeParity]:
    """Return the agreement of a file's run with the model at each node.

    Args:
        subject: The model.
        reference: What the model computes, at its nodes too.
        tensors: The tensors of the file that belong to nodes.
        run: What the file gave for the same batch, with these tensors.
        tolerance: An absolute distance, or ``"auto"``.
        exempt: Nodes that cannot be compared.
    """
    by_node: dict[str, list[str]] = {}
    for each in tensors:
        by_node.setdefault(each.node, []).append(each.tensor)
    compared: dict[str, NodeParity] = {}
    for node, values in reference.nodes.items():
        type = subject.graph[node].type if subject.graph is not None and node in subject.graph else ""
        if type == "Subgraph":
            continue
        if run.error is not None:
            note = f"not compared: {run.error}"
        elif node in exempt or node in reference.random:
            note = "draws random numbers, or depends on them"
        elif type in UNWRITTEN:
            note = "gives memory that was never written, whose values are arbitrary"
        else:
            found = [run.outputs[name] for name in by_node.get(node, ()) if name in run.outputs]
            if (match := _match(values, found, tolerance)) is not None:
                difference, value, tensor = match
                compared[node] = NodeParity(node, type, difference, "", histograms(value.value, tensor))
                continue
            note = "has no tensor of its own in the file: it is part of another node's"
        compared[node] = NodeParity(node, type, None, note)
    return compared


def _match(
    values: Sequence[Value], found: Sequence[NDArray[np.generic]], tolerance: Tolerance
) -> tuple[Difference, Value, NDArray[np.generic]] | None:
    """Return the worst difference between a node's values and the file's tensors that leave it, with both.

    A file may hold more tensors of a node, such as sizes, and fewer, where nobody reads them. What has the right shape
    and kind is compared: each value with the tensor that agrees best, for a wrong value agrees with none; where there are
    fewer tensors than values of one shape, each tensor with the value that agrees best.
    """
    matches: list[tuple[Difference, Value, NDArray[np.generic]]] = []
    alike: dict[tuple[str, tuple[int, ...]], list[Value]] = {}
    for value in values:
        alike.setdefault((value.value.dtype.kind, value.value.shape), []).append(value)
    for (kind, shape), same in alike.items():
        fits = [each for each in found if each.dtype.kind == kind and each.shape == shape]
        if not fits and len(values) == len(found) == 1 and found[0].dtype.kind == kind and found[0].ndim == len(shape):
            fits = [found[0]]
        pairs = [[(compare(each, value, tolerance), value, each) for each in fits] for value in same]
        if len(fits) < len(same):
            pairs = [list(column) for column in zip(*pairs, strict=True)]
        matches += [min(choices, key=lambda each: each[0].ratio) for choices in pairs if choices]
    return max(matches, key=lambda each: each[0].ratio, default=None)
