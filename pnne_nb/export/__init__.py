"""Exports models to files for other runtimes, with a check before and a proof after.

The package is the function of the contract::

    report = pn.export(graph, "net.onnx")
    report.ok, report.sizes, report.nodes["conv1"].error
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, final

from pnne_nb.errors import answers_misuse
from pnne_nb.graph.model.annex import OWN
from pnne_nb.process.background_import import imported_late

if TYPE_CHECKING:
    from pnne_nb.compiler.weights.weight_source import Reuse
    from pnne_nb.export.export_report import ExportReport
    from pnne_nb.export.subject.subject import Sizes


@final
class _Export(ModuleType):
    """The callable package."""

    @answers_misuse(
        'pn.export(graph, "net.onnx")',
        dict.fromkeys(("args", "dummy_input", "example_inputs", "inputs"), "data=(x,)"),
        dynamic_axes='sizes={"N": (1, 64)}; sizes that the Input nodes name stay free without it',
        dynamic_shapes='sizes={"N": (1, 64)}; sizes that the Input nodes name stay free without it',
        input_names="no names: those of the Input nodes are used",
        output_names="no names: those of the Output nodes are used",
        opset_version="opset=18",
    )
    def __call__(
        self,
        graph_or_model_or_engine: object,
        path: str | Path,
        format: str = "auto",
        *,
        data: object = None,
        sizes: Sizes | None = None,
        opset: int | None = None,
        tolerance: float | Literal["auto"] = "auto",
        overwrite: bool = False,
        reuse: Reuse = OWN,
    ) -> ExportReport:
        """Write a model to a file for another runtime, and prove that the file computes the same at every drawn node.

        Names of inputs and outputs are those of the Input and Output nodes; sizes that the Input nodes name stay free. A
        size that cannot stay free is fixed, and the report says so with the node at fault. The written file is run in a
        process that holds nothing but its runtime, on real batches and at other sizes.

        Args:
            graph_or_model_or_engine: A graph, with the weights that belong to it: the latest of a training, else those that
                it came with; one that was drawn and not trained has initial ones, and the report says so. Or a module,
                compiled or any other, or an engine, whose model is copied. None of them is changed.
            path: The file to write.
            format: ``"onnx"``, ``"pt2"``, ``"safetensors"``, ``"pt"``, ``"aoti"``, ``"executorch"`` or ``"torchscript"``;
                ``"auto"``: what the end of `path` means.
            data: What to prove on: tensors, arrays, a mapping from names of inputs, a Dataset or a DataLoader, of which
                the first batch is taken. Otherwise the first examples of an engine's own data, or made ones. A module
                that was not compiled from a graph needs it, or `sizes`.
            sizes: By the name of a free size, a number, which fixes it, or the pair (smallest, largest) that is asked for;
                by the name of an input, its shape, ``("N", 3, "H", "W")``.
            opset: The version of ONNX's operators; torch's own choice if None.
            tolerance: What file and model may differ by: a distance, or ``"auto"`` for what rounding explains, found by
                running the model on inputs and weights that are one rounding error off.
            overwrite: Whether to replace a file that is there.
            reuse: Other weights than those of a graph, as in `pn.compile`.

        Returns:
            What was written and how it was proved; a warning is given if file and model differ.

        Raises:
            ExportError: The graph is unfinished, its weights are gone, the model has no form in the format, the path cannot
                be written, or a package is missing; ``diagnostics`` names the nodes. No file is left behind.
        """
        # Imports torch, which whoever only opens a file does not need.
        write = imported_late("pnne_nb.export.exporter").export_model
        report: ExportReport = write(
            graph_or_model_or_engine,
            path,
            format,
            data=data,
            sizes=sizes,
            opset=opset,
            tolerance=tolerance,
            overwrite=overwrite,
            reuse=reuse,
        )
        return report


sys.modules[__name__].__class__ = _Export
