"""Export the kinds of graphs that people draw and public architectures, and count what the proof misses.

    python scripts/export_trials.py [FORMAT] [FAULTS] [NAME...]

Every kind of `tests.export.kinds` and every network of `tests.export.architectures` is checked, exported and proved. Then
the file is run once more, in this process, on inputs and sizes that the proof has not seen. Against an export count:

- silently wrong: the report is fine, and the file differs from the model by more than a thousandth of the largest value;
- baked: the report calls a size free, and the file does not take another value of it that the model takes;
- refused without a node, and a check that says something else than the export.

Then FAULTS (100) seeded faults are put into ONNX files of the kinds, one each (a permuted weight, a scaled one, one wrong
element, another eps, shifted padding): the first node that differs must be the one with the fault. As many healthy
comparisons, on inputs of other sizes and magnitudes, must differ nowhere. Exits with the number of demands that failed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.analysis.nested_values import tensors_in
from pnne_nb.errors import Diagnostic
from pnne_nb.export import formats
from pnne_nb.export.export_report import ExportReport
from pnne_nb.export.formats.base import TensorInfo
from pnne_nb.export.subject.example_batches import BatchMaker
from pnne_nb.export.subject.subject import input_names
from tests.export.architectures import ARCHITECTURES, declared_shapes
from tests.export.faults import Exported, first_bad
from tests.export.kinds import KINDS

SCALES = (1.0, 10.0, 0.1, 100.0)
CLOSE = 1e-3
"""The share of the largest output that a file may be off and still count as right here: the proof is far stricter."""


class Case(NamedTuple):
    """One export.

    Attributes:
        model: The module.
        options: For `pn.export` and `pn.check_export`.
        inputs: What the module takes.
        others: Calls at other sizes that the module takes, each with the values of its sizes.
    """

    model: nn.Module
    options: Mapping[str, Any]
    inputs: tuple[TensorInfo, ...]
    others: tuple[tuple[Tensor, ...], ...]


def main(format: str = "onnx", faults: int = 100, names: tuple[str, ...] = ()) -> int:
    """Return the number of failed demands."""
    kinds = [name for name in names or KINDS if name in KINDS]
    architectures = [name for name in names or ARCHITECTURES if name in ARCHITECTURES]
    cases: dict[str, Callable[[], Case]] = {f"drawn {name}": partial(_drawn, name) for name in kinds}
    cases |= {name: partial(_written, name) for name in architectures}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        failed += _export_all(format, cases, Path(folder))
        if faults:
            failed += _find_faults(faults, kinds, Path(folder))
    return failed


def _drawn(name: str) -> Case:
    graph = KINDS[name]()
    model = pn.compile(graph).eval()
    inputs = tuple(
        TensorInfo(node.name, str(node.properties.get("dtype") or "float32"), tuple(node.properties["shape"]))  # type: ignore[arg-type]  # every kind has shapes
        for node in graph.nodes.values()
        if node.type == "Input"
    )
    maker = BatchMaker(model, inputs, {})
    example = maker.example()
    others = [{**example, size: value} for size in example for value in maker.other_values(size, example, 5, None)[1:]]
    return Case(model, {}, inputs, tuple(maker.tensors(sizes) for sizes in others))


def _written(name: str) -> Case:
    entry = ARCHITECTURES[name]
    torch.manual_seed(0)
    model = entry.make().eval()
    names = input_names(model) or ()
    shapes = declared_shapes(entry)[: len(names)]
    inputs = tuple(
        TensorInfo(one, str(value.dtype).removeprefix("torch."), shape)
        for one, value, shape in zip(names, entry.args, shapes, strict=False)
    )
    options = {"data": entry.args, "sizes": dict(zip(names, shapes, strict=True))}
    return Case(model, options, inputs, (entry.args, *entry.others))


def _export_all(format: str, cases: Mapping[str, Callable[[], Case]], folder: Path) -> int:
    results: Counter[str] = Counter()
    for name, make in cases.items():
        start = time.perf_counter()
        case = make()
        findings = pn.check_export(case.model, format, **case.options)
        path = folder / f"{name.replace(' ', '_')}{formats.find_format(format, '').suffixes[0]}"
        report: ExportReport | None = None
        try:
            report = pn.export(case.model, path, format, **case.options)
            said = f"{'proved' if report.ok else 'DIFFERENT'}, {'; '.join(map(str, report.sizes.values()))}"
            results["proved" if report.ok else "reported as different"] += 1
            faults = [f"MISSED: {each}" for each in _missed(case, report)] if report.ok else []
            results.update("silently wrong" if "wrong" in each else "baked without a word" for each in faults)
        except pn.ExportError as error:
            named = bool(error.diagnostics) and all(each.node and each.hint for each in error.diagnostics)
            results["refused at a node with a repair" if named else "refused otherwise"] += 1
            said, faults = f"refused{'' if named else ' WITHOUT A NODE OR REPAIR'}: {error}", []
            told = _told(error.diagnostics) or {("not-exportable", None)}
        if report is not None:
            fixed = [size.nodes or (None,) for size in report.sizes.values() if size.how == "fixed"]
            told = {("size-fixed", node) for nodes in fixed for node in nodes}
            told |= {("axis-fixed", axis.input) for axis in report.fixed if axis.name}
            told |= {("differs", each.node) for each in report.nodes.values() if not each.ok}
        agree = _told(findings) == told
        results["check and export agree"] += agree
        if not agree:
            says, exported = (sorted(map(str, each)) for each in (_told(findings), told))
            faults.append(f"DISAGREE: the check says {says}, the export {exported}")
        print(f"{name:24} {said}, {time.perf_counter() - start:.1f} s", *faults, sep="\n    ", flush=True)
    print(f"{len(cases)} graphs and networks as {format}: {dict(results)}")
    return (
        (results["silently wrong"] > 0)
        + (results["baked without a word"] > 0)
        + (results["refused otherwise"] > 0.03 * len(cases))
        + (results["check and export agree"] < 0.99 * len(cases))
    )


def _told(findings: list[Diagnostic] | tuple[Diagnostic, ...]) -> set[tuple[str, str | None]]:
    return {(each.code, each.node) for each in findings if each.severity != "info"}


def _missed(case: Case, report: ExportReport) -> Iterator[str]:
    """Yield what the report does not say: calls that the file answers wrongly, or refuses although it calls the size free."""
    opened = formats.open(report.path, report.format)
    fixed = {name for name, size in report.sizes.items() if size.how == "fixed"}
    for number, call in enumerate(case.others):
        sizes = {
            s: n for info, t in zip(case.inputs, call, strict=True) for s, n in zip(info.shape, t.shape, strict=True)
        }
        if any(report.sizes[s].value != n for s, n in sizes.items() if s in fixed):
            continue  # the file does not take it, and the report says so
        with torch.no_grad():
            expected = tensors_in(case.model(*(tensor.clone() for tensor in call)))
        named = dict(zip((info.name for info in opened.inputs), (tensor.numpy() for tensor in call), strict=True))
        words = ", ".join(f"{s}={n}" for s, n in sizes.items() if isinstance(s, str))
        try:
            found = list(opened.run(named).values())
        except pn.ExportError as error:
            yield f"baked: the report calls the sizes free, and with {words} the file says: {error}"
            continue
        for value, one in zip(expected, found, strict=False):
            wide, other = value.double(), torch.from_numpy(one.astype("float64"))
            far = wide.shape != other.shape or (wide - other).abs().max() > CLOSE * max(1.0, float(wide.abs().max()))
            if far and not report.random and not report.exempt:
                yield f"wrong: call {number} with {words}"
    opened.close()


def _find_faults(count: int, kinds: list[str], folder: Path) -> int:
    exported = [Exported(KINDS[kind](), folder, kind) for kind in kinds]
    named: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    alarms = 0
    for number in range(count):
        each = exported[number % len(exported)]
        batch = {
            name: tensor * SCALES[number % len(SCALES)] if tensor.is_floating_point() else tensor
            for name, tensor in each.batch().items()
        }
        alarm = first_bad(each.compare(each.path, batch))
        if alarm is not None:
            alarms += 1
            print(f"false alarm at {alarm} of {each.path.name}")
        fault = each.with_fault(number, folder / "faulty.onnx")
        found = first_bad(each.compare(folder / "faulty.onnx", each.batch()))
        tried[fault.kind] += 1
        named[fault.kind] += found == fault.node
        if found != fault.node:
            print(f"fault {number}: {fault.kind} in {fault.node} of {each.path.name}, first difference at {found}")
    print(f"faults named: {sum(named.values())} of {count} ({', '.join(f'{k} {named[k]}/{tried[k]}' for k in tried)})")
    print(f"false alarms: {alarms} of {count} healthy comparisons")
    return (sum(named.values()) < 0.98 * count) + (alarms > 0.01 * count)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    format, faults, *names = [*sys.argv[1:], *("onnx", "100")[len(sys.argv) - 1 :]]
    sys.exit(main(format, int(faults), tuple(names)))
