"""`pn.compare_targets`: measures every deployment form of a model, and recommends one."""

from __future__ import annotations

import functools
import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import ArgumentError, expect, near, shown
from pnne_nb.export.quantization.quantization_report import QuantizationReport
from pnne_nb.export.quantization.scheme import INT8
from pnne_nb.graph.model.annex import OWN
from pnne_nb.inference.held_out import Budget, Examples, HeldOutCriterion, joined, read_examples
from pnne_nb.inference.quantize import quantize
from pnne_nb.inference.targets.forms import FORMS, GPU, Built, Form, Run, largest_gap, largest_value, why_not, workshop
from pnne_nb.inference.targets.gpu_forms import ABSENT, GPU_FORMS
from pnne_nb.inference.targets.target_table import TargetRow, TargetTable, time_in_turns
from pnne_nb.process.random_state import private_random_state
from pnne_nb.runtime.data.batches import Batch
from pnne_nb.runtime.data.open_data import Array, Data, require_count

WAITING = "It has not been built yet."

TIMING_SECONDS = 0.5
"""What each form is timed for."""

SAME = 1e-3
"""Outputs that differ by less, relative to the largest, are the same without a metric: kernels sum in another order."""


def compare_targets(
    graph: object,
    data: Data | Array | None = None,
    *,
    val_data: Data | Array | None = None,
    reuse: Reuse = OWN,
    targets: Sequence[str] | None = None,
    batch_size: int = 32,
    budget: Budget | None = None,
    quantized: QuantizationReport | None = None,
    include_slow: bool = False,
    seconds: float = 180.0,
    tell: Callable[[TargetTable], bool] = lambda _: True,
) -> TargetTable:
    """Build every deployment form of a model, and measure each in comparison with the model itself.

    Where there is a CUDA device, forms for it are compared with the model in eager PyTorch on that device; their times
    include the copies of inputs and outputs.

    All forms are timed in turns, with intervals, on a batch of real examples; each is compared with the model at its drawn
    nodes or outputs, and judged on held-out data. The recommended form is the fastest that is surely faster than the model
    itself, and whose metric stays within the budget; if there is none, the model as it is. A form of lower precision is
    recommended only where it takes less than nine tenths of the time of the fastest in float32.

    Args:
        graph: A graph, a compiled or any other module, or a `TrainingEngine`. None of them is changed.
        data: Real examples with targets, in any form that `TrainingEngine` takes; an engine's own if None.
        val_data: Held-out examples; without them, every fourth batch of `data` calibrates int8 and the others judge.
        reuse: Other weights than those of a graph, as in ``pn.compile``.
        targets: Names of the forms to compare; None: all.
        batch_size: Examples in the batch that is timed.
        budget: A metric and what a recommended form may lose of it, as in `pn.quantize`.
        quantized: The model in int8, from `pn.quantize`; made with the same data and budget if None.
        include_slow: Whether forms that take minutes to build are built too: ExecuTorch and AOTInductor.
        seconds: Time for building; a form whose turn comes later is left out, and the table says so. A form that has begun
            is finished.
        tell: Called with the table as it is so far, before each form is built and before all are timed; ``recommendation``
            says what is done now. If it returns False, no further form is built.

    Returns:
        The table: ``rows``, ``best``, ``recommendation``, ``to_svg()``.

    Raises:
        ArgumentError: There is no data, or an argument of the wrong kind.
        ExportError: The graph is unfinished, or does not take the data; diagnostics name the nodes.
    """
    require_count("batch_size", batch_size)
    expect(seconds, (int, float), "seconds", "a number of seconds")
    expect(quantized, (QuantizationReport, NoneType), "quantized", "what pn.quantize returns")
    forms = _chosen(_forms(quantized), targets)
    absent = (
        [form.name for form in forms if form.device == GPU] if targets is None and not torch.cuda.is_available() else []
    )
    forms = [form for form in forms if form.name not in absent]
    with private_random_state():
        examples = read_examples(graph, data, val_data, reuse)
        criterion = HeldOutCriterion(budget, examples)
        inputs = _first(examples, batch_size)
        convert = functools.cache(functools.partial(_convert, quantized, examples, budget))
        rows = {
            form.name: TargetRow(form.name, form.needs, form.precision, WAITING, device=form.device) for form in forms
        }
        built: dict[str, Built] = {}

        def table(best: str, said: str, notes: Sequence[str]) -> TargetTable:
            size = inputs[0].shape[0] if inputs[0].dim() else 1
            processor = _capabilities().get("cpu_name") or platform.processor() or platform.machine()
            threads = f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
            machine = f"{processor}, {threads}, PyTorch {torch.__version__}"
            return TargetTable(dict(rows), best, said, criterion.name, size, machine, tuple(notes))

        start = time.monotonic()
        with workshop(examples.subject.model, inputs, convert) as shop:
            try:
                for form in forms:
                    wants_slow, spent = include_slow or targets is not None, time.monotonic() - start
                    missing = _left_out(form, wants_slow, spent, seconds) if built else ""
                    if not missing and not tell(table("", f"Building {form.name} …", examples.notes)) and built:
                        missing, seconds = "It was stopped before this one was built.", -math.inf
                    if not missing:
                        try:
                            built[form.name] = form.build(shop)
                        except Exception as error:
                            if not built:
                                raise  # what the others are compared with
                            missing = why_not(error)
                    rows[form.name] = replace(rows[form.name], missing=missing)
                tell(table("", "Timing all forms in turns, and judging them on held-out data …", examples.notes))
                for device in ("cpu", GPU):
                    placed = {name: each for name, each in built.items() if rows[name].device == device}
                    if placed:
                        _measure(rows, placed, examples, criterion, inputs)
            finally:
                for each in built.values():
                    each.close()
    here, there = ({name: row for name, row in rows.items() if row.device == device} for device in ("cpu", GPU))
    rows |= _ranked(here) | _ranked(there)
    best, said = _recommend({name: rows[name] for name in here}, criterion)
    notes = list(examples.notes)
    if absent:
        notes.append(f"{ABSENT} Not compared: {', '.join(absent)}.")
    if any(rows[name].latency is not None for name in there):
        notes.append(f"On the GPU: {_recommend({name: rows[name] for name in there}, criterion)[1]}")
    notes += _of_low_precision({name: rows[name] for name in here}, criterion)
    return table(best, said, notes)


def _left_out(form: Form, wants_slow: bool, spent: float, seconds: float) -> str:
    if form.slow and not wants_slow:
        return "It takes minutes to build: include_slow=True."
    if seconds < 0:
        return "It was stopped before this one was built."
    return f"The {seconds:g} seconds for building were over: give more with seconds=." if spent > seconds else ""


def _forms(quantized: QuantizationReport | None) -> list[Form]:
    """Return all forms; the names of those of lower precision contain their type."""
    if quantized is None or quantized.kind in INT8:
        return [*FORMS, *GPU_FORMS]
    return [
        *(
            replace(form, name=form.name.replace("int8", quantized.kind), precision=quantized.kind)
            if form.precision == "int8"
            else form
            for form in FORMS
        ),
        *GPU_FORMS,
    ]


def _chosen(forms: Sequence[Form], targets: Sequence[str] | None) -> list[Form]:
    names = [form.name for form in forms]
    if targets is None:
        return list(forms)
    expect(targets, (list, tuple), "targets", "a list of names of forms")
    for name in targets:
        if name not in names:
            raise ArgumentError(f"There is no target {shown(name)}.{near(name, names)} There are {', '.join(names)}.")
    # The model itself, on each device, is what the others are compared with.
    devices = {form.device for form in forms if form.name in targets}
    first = {names[0], *([GPU_FORMS[0].name] if GPU in devices else [])}
    return [form for form in forms if form.name in targets or form.name in first]


def _convert(quantized: QuantizationReport | None, examples: Examples, budget: Budget | None) -> QuantizationReport:
    if quantized is not None:
        return quantized
    calibration, held_out = joined(examples.calibration), joined(examples.held_out)
    return quantize(examples.subject.model, calibration, budget, val_data=held_out)


def _first(examples: Examples, count: int) -> tuple[Tensor, ...]:
    """Return a batch of held-out examples, with all of them if there are not enough."""
    batches, seen = [], 0
    for batch in examples.held_out:
        batches.append(batch)
        seen += batch.examples
        if seen >= count:
            break
    return tuple(
        torch.cat([batch.inputs[place] for batch in batches])[:count].contiguous()
        for place in range(len(batches[0].inputs))
    )


def _measure(
    rows: dict[str, TargetRow],
    built: Mapping[str, Built],
    examples: Examples,
    criterion: HeldOutCriterion,
    inputs: tuple[Tensor, ...],
) -> None:
    calls = {name: functools.partial(each.run, *inputs) for name, each in built.items()}
    times = time_in_turns(calls, seconds=TIMING_SECONDS)
    size = inputs[0].shape[0] if inputs[0].dim() else 1
    reference: float | None = None
    expected = next(iter(calls.values()))()
    for name, each in built.items():
        value = criterion.value(_padded(each.run, size), _cut(examples.held_out, size)) if criterion.name else None
        reference = value if reference is None else reference
        rows[name] = replace(
            rows[name],
            latency=times[name],
            throughput=size / times[name].p50.value,
            bytes=each.bytes,
            memory=each.memory,
            metric=value,
            loss=_unlike(expected, calls[name]())
            if value is None or reference is None
            else criterion.lost(reference, value),
            error=None if each.error is None else each.error.value,
            error_at="" if each.error is None else each.error.node,
        )


def _unlike(expected: Any, found: Any) -> float:
    """Return 0 if results are equal except for rounding, else infinity, because no metric shows what is good enough."""
    return 0.0 if largest_gap(expected, found) <= SAME * largest_value(expected) else math.inf


def _cut(batches: Sequence[Batch], size: int) -> list[Batch]:
    cut = []
    for batch in batches:
        for start in range(0, batch.examples, size):
            part = slice(start, start + size)
            target = batch.target[part] if batch.target is not None else None
            count = min(size, batch.examples - start)
            cut.append(Batch(tuple(each[part] for each in batch.inputs), {}, target, count))
    return cut


def _padded(run: Run, size: int) -> Run:
    """Return a function that pads smaller batches with copies, so that compiled forms are not compiled again."""

    def padded(*inputs: Tensor) -> Any:
        count = inputs[0].shape[0]
        if count == size:
            return run(*inputs)
        places = torch.arange(size) % count
        return pytree.tree_map(lambda leaf: leaf[:count], run(*(each[places] for each in inputs)))

    return padded


def _ranked(rows: Mapping[str, TargetRow]) -> dict[str, TargetRow]:
    """Rank the forms of one device by relative time; forms whose intervals overlap with the fastest one of a rank share it.

    What slows the machine for a while slows all forms alike: their relative times stay, and the ranking with them.
    """
    timed = sorted((row for row in rows.values() if row.latency), key=_ratio)
    rank, leader, found = 0, None, dict(rows)
    for place, row in enumerate(timed):
        assert row.latency is not None, "chosen above"
        if leader is None or not row.latency.ratio.overlaps(leader):
            rank, leader = place + 1, row.latency.ratio
        found[row.name] = replace(row, rank=rank)
    return found


_WORTH = 0.9
"""Share of the time of the fastest form in float32. A form of lower precision that takes more is not recommended: it changes
every output, and which of two equally fast forms is ahead is chance."""

_WIDE = 2.0
"""From the least to the largest time that may be true: no figure of a wider interval can be promised, not even its end."""


def _recommend(rows: Mapping[str, TargetRow], criterion: HeldOutCriterion) -> tuple[str, str]:
    """Return the form to ship and the reason as a sentence: the fastest that is clearly faster than the model and as good."""
    eager = next(iter(rows.values()))
    good = [row for row in rows.values() if row.latency is not None and _is_good(row, criterion)]
    faster = [row for row in good if row is not eager and row.latency is not None and row.latency.ratio.high < 1.0]
    if not faster:
        return eager.name, "Ship the model as it is: no other form is surely faster here and as good."
    float32 = [row for row in faster if row.precision == "float32"]
    best = min(faster, key=_ratio)
    if float32 and _ratio(best) > _WORTH * min(map(_ratio, float32)):
        best = min(float32, key=_ratio)
    assert best.latency is not None, "chosen above"
    ratio = best.latency.ratio
    if ratio.high > _WIDE * ratio.low:
        said = f"Ship {best.name}: faster than {eager.name}, and how much is unknown, because other programs kept the machine busy"
    else:
        low, high = _times(ratio.high), _times(ratio.low)
        said = f"Ship {best.name}: {_times(ratio.value)} times as fast as {eager.name} ({low} to {high})"
    if best.metric is not None and eager.metric is not None:
        said += f", {criterion.name} {best.metric:.4g} against {eager.metric:.4g}"
    return best.name, f"{said}; it needs {best.needs}."


def _of_low_precision(rows: Mapping[str, TargetRow], criterion: HeldOutCriterion) -> list[str]:
    """Return a sentence that compares int8, if it was timed, with the fastest form in float32."""
    timed = [row for row in rows.values() if row.latency is not None]
    low = [row for row in timed if row.precision != "float32"]
    high = [row for row in timed if row.precision == "float32"]
    if not low:
        return []
    fastest, other = (min(each, key=_ratio) for each in (low, high))
    assert fastest.latency is not None, "chosen above"
    assert other.latency is not None, "chosen above"
    gain = _ratio(other) / _ratio(fastest)
    name = low[0].precision.capitalize()
    if fastest.latency.ratio.high < other.latency.ratio.low:
        notes = [f"{fastest.name} is {_times(1 / gain)} times as fast as {other.name}, the fastest form in float32."]
    else:
        notes = [f"{name} is not surely faster here than {other.name}, the fastest form in float32."]
    if not criterion.name:
        notes.append(
            f"Without targets, nothing tells whether {low[0].precision} is good enough, and it is not recommended: give (X, y)."
        )
    elif not _is_good(fastest, criterion):
        notes.append(f"{fastest.name} loses more than the budget allows.")
    known = _capabilities()
    if "avx512_vnni" in known and not any(known.get(name) for name in _INT8_INSTRUCTIONS):
        notes.append("This processor has no instructions for products of int8 numbers (VNNI), which make int8 fast.")
    return notes


def _ratio(row: TargetRow) -> float:
    return math.inf if row.latency is None else row.latency.ratio.value


_INT8_INSTRUCTIONS = ("avx512_vnni", "avx_vnni", "amx_int8")


def _is_good(row: TargetRow, criterion: HeldOutCriterion) -> bool:
    return row.loss is None or (math.isfinite(row.loss) and row.loss <= criterion.budget)


def _capabilities() -> Mapping[str, Any]:
    """Return torch's description of the processor; empty in older versions."""
    found: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return found


def _times(ratio: float) -> str:
    """Return a speed-up as text: ``"1.8"``, or ``"28"`` from ten on."""
    times = 1 / ratio
    return f"{times:.1f}" if times < 10 else f"{times:,.0f}"
