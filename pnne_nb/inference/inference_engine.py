"""`InferenceEngine`: predicts with a trained model, live or from a file, in batches and without gradients."""

from __future__ import annotations

import copy
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeAlias, final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import CPU, to_device
from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS, is_one_argument
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import AnswersNames, ArgumentError, TrainingError, expect, no_attribute
from pnne_nb.export.formats import FORMATS
from pnne_nb.export.formats.base import TensorInfo
from pnne_nb.export.package.load import open_package
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.habits import Habits
from pnne_nb.inference.cuda_graphs import CudaGraphs
from pnne_nb.inference.exported import ExportedModule, classes_of, open_exported, require_classes, require_inputs
from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.data.batches import Batch, as_batch, join_outputs, tensors_in
from pnne_nb.runtime.data.open_data import Array, Data, Table, as_tensors, from_numpy, open_source, require_count
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource
from pnne_nb.runtime.faults.error_messages import model_failed
from pnne_nb.runtime.faults.oom_recovery import is_out_of_memory
from pnne_nb.runtime.setup.devices import placed_paths, settle
from pnne_nb.runtime.setup.models import as_module, require_own
from pnne_nb.runtime.setup.precision import Precision, choose_device
from pnne_nb.runtime.thread.boundary import between_steps, without_hooks

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called after each batch with the batches done and their number, None if unknown."""


class Prediction(NamedTuple):
    """The likeliest classes of each example, best first.

    Attributes:
        model: The module that runs.
        classes: Numbers of the classes, ``[examples, k]``.
        probabilities: Theirs, ``[examples, k]``.
    """

    classes: Tensor
    probabilities: Tensor


@final
class InferenceEngine(metaclass=AnswersNames):
    """Runs a copy of `model` in eval mode; the original may continue its training. It is thread-safe.

    Args:
        model: A module, of which a copy is made, or a graph, which is compiled with the weights that belong to it.
        device: ``"auto"`` (the accelerator if there is one), ``"cpu"``, ``"cuda:0"`` …; nodes with devices of their
            own, and a module that is on several, keep theirs.
        precision: ``"32"``, ``"bf16"`` or ``"16"``.
        batch_size: Examples that the model sees at once.
        cuda_graphs: Record the model as a CUDA graph for each size of batch, and replay it: much faster for small batches,
            whose kernels take less time than their launch. For CUDA devices, and models that do not look at their data.
        reuse: Other weights than those of a graph, as in `pn.compile`.

    Attributes:
        model: The module that runs.
        classes: Names of the classes in the order of the model's scores, where a file says them.
        inputs: Names, element types and sizes of the inputs, where a file says them: data is compared with them.

    Raises:
        CompileError: The graph is unfinished or wrong, or its weights are gone.
        TrainingError: An argument cannot be; the message says which and why.
    """

    _elsewhere = Habits("inference")

    def __init__(
        self,
        model: nn.Module | NodeGraph,
        device: str | torch.device = "auto",
        precision: str = "32",
        batch_size: int = 64,
        *,
        cuda_graphs: bool = False,
        reuse: Reuse = OWN,
    ) -> None:
        require_count("batch_size", batch_size)
        self.device = choose_device(device)
        if cuda_graphs and self.device.type != "cuda":
            raise TrainingError(
                f"cuda_graphs=True needs a CUDA device, and this engine runs on {self.device}: leave it out, or pass "
                "device='cuda'."
            )
        self.classes: tuple[str, ...] | None = None
        self.inputs: tuple[TensorInfo, ...] = ()
        self._file = ""
        self.batch_size = batch_size
        self._precision = Precision(precision, self.device)
        self._lock = fork_safe(threading.Lock())
        self.model = self._copied(model, reuse)
        self._most_inputs = _most_inputs(self.model)
        self._graphs = CudaGraphs(self.model, self.device) if cuda_graphs else None

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | torch.device = "auto",
        precision: str = "32",
        batch_size: int = 64,
        *,
        format: str = "auto",
        classes: Sequence[str] | None = None,
        trust: bool = False,
    ) -> Self:
        """Open a file of `pn.save` or `pn.export`.

        A package and an ONNX file hold data only. An exported program (``.pt2``) and an AOTInductor package can run code
        when they are opened: those need ``trust=True``, which means that you know who has written them.

        Args:
            path: Of a package (file or folder), or of an exported file.
            device: As for a live model; exported files run on the CPU.
            precision: As for a live model; exported files have the precision that they were exported with.
            batch_size: Examples that the model sees at once; a file that takes one number only decides itself.
            format: ``"package"`` or the name of a format of `pn.export`; ``"auto"`` takes what the end of `path` means, and a
                package if it means none.
            classes: Names that the classes must have, in order; they are compared with those of the file, if it says them.
            trust: Whether code in the file may run.

        Raises:
            GraphFileError: A package is damaged, hostile, or from a newer version.
            ExportError: An exported file cannot be opened, or needs ``trust=True``; or its classes are others.
            CompileError: A package has node types that are not registered here.
            TrainingError: An argument cannot be; the message says which and why.
        """
        expect(path, (str, os.PathLike), "path", "the path of a package or an exported file")
        file = Path(path)
        if format == "package" or (format == "auto" and not _has_format(file)):
            package = open_package(file)
            engine = cls(package.model, device, precision, batch_size)
            known, engine.inputs = package.manifest.classes, package.manifest.inputs
        else:
            if str(device) not in ("auto", "cpu") or precision != "32":
                raise TrainingError(
                    f"{file.name} runs on the CPU, in the precision that it was exported with: leave out device and precision."
                )
            module = open_exported(file, format, trust=trust)
            first = [info.shape[0] for info in module.inputs if info.shape and isinstance(info.shape[0], int)]
            engine = cls(module, "cpu", "32", first[0] if first else batch_size)
            known, engine.inputs = classes_of(module), module.inputs
        engine._file = file.name
        engine.classes = require_classes(classes, known, file.name)
        return engine

    def close(self) -> None:
        """Free the runtime of an exported file; does nothing for a live model."""
        with self._lock:
            if isinstance(self.model, ExportedModule):
                self.model.close()

    def __repr__(self) -> str:
        return f"InferenceEngine({self._file or type(self.model).__name__}, device='{self.device}', batch_size={self.batch_size})"

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            raise TypeError("Write engine.predict(X).")

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, self._elsewhere)

    def _copied(self, model: nn.Module | NodeGraph, reuse: Reuse = OWN) -> nn.Module:
        if isinstance(model, nn.Module):
            require_own(model, reuse)
            module = _copy(model)
        else:
            module = as_module(model, 0, reuse, "run").model
        settle(module, self.device, placed_paths(model))
        return module.eval()

    def refresh(self, model: nn.Module) -> None:
        """Use a new copy of `model` from the next batch on."""
        fresh = self._copied(model)
        with self._lock:
            self.model, self._most_inputs = fresh, _most_inputs(fresh)
            self._graphs = None if self._graphs is None else CudaGraphs(fresh, self.device)

    def stream(self, data: Data | Array | Iterator[Any], *, progress: Progress | None = None) -> Iterator[Any]:
        """Yield the model's output for each batch, on the CPU, as soon as it is computed.

        Args:
            data: An array of inputs, or a list of them; or a tuple of arrays, arrays by name, a Dataset, a DataLoader or
                a generator whose batches hold the inputs. A target beside them, which the model does not take, is left
                out: an argument of ``forward`` whose default is a number, a bool or a string takes none. What a
                DataLoader would shuffle comes in the order of its dataset.
            progress: Called after each batch with the batches done and their number, None if unknown.

        Raises:
            TrainingError: The data is of another kind, empty, or does not fit the model; a note tells the batch.
        """
        if isinstance(data, Iterator):
            source, batches, size = None, data, None
        else:
            source = self._opened(data)
            batches, size = source.batches(1), source.size
        try:
            for index, raw in enumerate(batches):
                try:
                    output = self._run(raw)
                except Exception as error:
                    _add_place(error, index + 1)
                    raise
                yield output
                if progress is not None:
                    progress(index + 1, size)
        finally:
            if source is not None:
                source.close()

    def _opened(self, data: Data | Array) -> BatchSource:
        if data is None:
            raise ArgumentError(
                "There is no data: give the inputs, as an array, a Dataset, a DataLoader or a generator."
            )
        source = open_source(_arrays(data, self._most_inputs), "data", batch_size=self.batch_size)
        # In an order of chance, nobody would know which output belongs to which example.
        return DatasetSource(source.template, shuffle=False, seed=0) if isinstance(source, DatasetSource) else source

    def _run(self, raw: Any) -> Any:
        raw = _with_tensors(raw)
        batch = as_batch(raw, wants_target=False)
        with self._lock, torch.inference_mode(), self._precision.autocast():
            if len(batch.inputs) - 1 == self._most_inputs:
                batch = as_batch(raw, wants_target=True)
            if batch.named and is_one_argument(batch.named, self.model):
                batch = Batch((batch.named,), {}, None, batch.examples)
            inputs = to_device(batch.inputs, self.device)
            named = to_device(_taken(batch.named, self.model), self.device) if batch.named else {}
            if self.inputs:
                require_inputs(self.inputs, inputs, named, self._file)
            try:
                call = self.model if self._graphs is None else self._graphs
                return to_device(call(*inputs, **named), CPU)
            except (RuntimeError, TypeError, ValueError) as error:
                explained = model_failed(error, self.model, batch)
                if explained is None:
                    raise
                raise explained from error

    def predict(self, data: Data | Array | Iterator[Any], *, progress: Progress | None = None) -> Any:
        """Return the model's outputs for all of `data`, joined along the first dimension; see `stream`.

        Of a model that gives a single number for a batch, the numbers of the batches.
        """
        if (
            not (isinstance(data, Tensor) and data.dim() and 0 < data.shape[0] <= self.batch_size)
            or progress is not None
            or data.layout != torch.strided
        ):
            return join_outputs(list(self.stream(data, progress=progress)))
        # One batch needs no source of batches, which would take longer than a small model.
        try:
            return join_outputs([self._run(data.clone())])
        except Exception as error:
            _add_place(error, 1)
            raise

    def probabilities(self, data: Data | Array | Iterator[Any], *, progress: Progress | None = None) -> Tensor:
        """Softmax over dimension 1 of the outputs, ``[examples, classes, ...]``; of one column, the sigmoid.

        Raises:
            TrainingError: The model returns something else than one tensor, or NaN, of which there are no probabilities;
                the message names the examples, and the inputs that hold NaN or infinity.
        """
        outputs = self.predict(data, progress=progress)
        if not isinstance(outputs, Tensor):
            raise TrainingError(
                f"The model returns a {type(outputs).__name__}, and probabilities need one tensor of scores: choose it from "
                "what predict() gives, and take its softmax(1)."
            )
        self._require_numbers(outputs, data)
        scores = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        return scores.sigmoid() if scores.dim() < 2 or scores.shape[1] == 1 else scores.softmax(1)

    def _require_numbers(self, outputs: Tensor, data: Data | Array | Iterator[Any]) -> None:
        wrong = outputs.isnan().reshape(len(outputs), -1).any(1) if outputs.dim() else outputs.isnan().reshape(1)
        if not bool(wrong.any()):
            return
        examples = wrong.nonzero().flatten().tolist()
        found = {} if isinstance(data, Iterator) else self._not_finite_inputs(data)
        told = f"The model gives NaN for {_listed('example', examples)} of {len(wrong)}, which has no probabilities."
        if found:
            places = "; ".join(f"{name!r} of {_listed('example', rows)}" for name, rows in found.items())
            advice = (
                f"NaN or infinity is in its input {places}: leave these out, or fill them, as x.nan_to_num(0.0) does."
            )
        elif isinstance(data, Iterator):
            advice = "Look for NaN in the data, x.isfinite(); predict() gives the scores as they are."
        else:
            advice = (
                "Its inputs are finite, so it makes the NaN itself: with pn.detect_anomaly(model): model(x) names the node, "
                "and predict() gives the scores as they are."
            )
        raise TrainingError(f"{told} {advice}")

    def _not_finite_inputs(self, data: Data | Array) -> dict[str, list[int]]:
        """Return the examples whose inputs hold NaN or infinity, by the name of the input."""
        found: dict[str, list[int]] = {}
        names = list(_parameters(self.model))
        source, seen = self._opened(data), 0
        try:
            for raw in source.batches(1):
                raw = _with_tensors(raw)
                batch = as_batch(raw, wants_target=False)
                if len(batch.inputs) - 1 == _most_inputs(self.model):
                    batch = as_batch(raw, wants_target=True)
                given = dict(zip(names, batch.inputs, strict=False)) | batch.named
                for name, value in given.items():
                    if isinstance(value, Tensor) and value.is_floating_point() and value.dim():
                        rows = (~value.isfinite()).reshape(len(value), -1).any(1).nonzero().flatten()
                        if len(rows):
                            found.setdefault(name, []).extend((rows + seen).tolist())
                seen += batch.examples
        finally:
            source.close()
        return dict(sorted(found.items(), key=lambda item: names.index(item[0]) if item[0] in names else len(names)))

    def top_k(self, data: Data | Array | Iterator[Any], k: int = 5, *, progress: Progress | None = None) -> Prediction:
        """Return the `k` likeliest classes of each example; fewer if there are fewer.

        Raises:
            TrainingError: `k` is no positive number, or there are no probabilities; see `probabilities`.
        """
        require_count("k", k)
        found = self.probabilities(data, progress=progress)
        found = found.unsqueeze(1) if found.dim() < 2 else found
        if self.classes is not None and found.shape[1] not in {1, len(self.classes)}:
            raise TrainingError(
                f"There are {len(self.classes)} classes ({', '.join(self.classes[:3])} …), and the model gives scores for "
                f"{found.shape[1]}."
            )
        best = found.topk(min(k, found.shape[1]), dim=1)
        return Prediction(best.indices, best.values)

    def warm_up(self, example: Array | tuple[Array, ...], times: int = 3) -> None:
        """Run `example`, a batch of inputs, so that the first real batch does not include the set-up time.

        Raises:
            TrainingError: `times` is no positive number.
        """
        require_count("times", times)
        batch = tuple(map(_tensor, example)) if isinstance(example, tuple) else _tensor(example)
        for _ in range(times):
            self._run(batch)


def _listed(what: str, numbers: Sequence[int]) -> str:
    """Return ``"example 3"``, or ``"examples 0, 1, 2 and 5 more"``."""
    more = f" and {len(numbers) - 3} more" if len(numbers) > 3 else ""
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:3]))}{more}"


def _add_place(error: Exception, batch: int) -> None:
    less = " A smaller batch_size takes less memory." if is_out_of_memory(error) else ""
    error.add_note(f"In batch {batch} of the data.{less}")


def _has_format(path: Path) -> bool:
    return any(path.name.lower().endswith(end) for format in FORMATS for end in format.suffixes) and not path.is_dir()


def _arrays(data: Data | Array, inputs: int | None) -> Data:
    """Return data for `open_source`: arrays of one shape in a list are examples, unless they are as many as `inputs`."""
    match data:
        case Tensor() | np.ndarray() | Table():
            return (data,)
        case [Tensor() | np.ndarray(), *_] if isinstance(data, list):
            tensors = as_tensors(data, "data")
            parts = len(tensors) == 1 or inputs is None or 1 < inputs in {len(tensors), len(tensors) - 1}
            return tensors if parts or len({tensor.shape for tensor in tensors}) > 1 else (torch.stack(tensors),)
        case _:
            return data


def _tensor(value: Any) -> Any:
    return as_tensors((value,), "example")[0] if isinstance(value, Table | list) else value


def _with_tensors(raw: Any) -> Any:
    match raw:
        case np.ndarray() if raw.dtype.kind in "fiubc":
            return from_numpy(raw, "data")
        case Mapping():
            return {name: _with_tensors(item) for name, item in raw.items()}
        case tuple() | list() if any(isinstance(item, np.ndarray) for item in raw):
            return [_with_tensors(item) for item in raw]
        case _:
            return raw


def _copy(model: nn.Module) -> nn.Module:
    """Return a consistent copy of `model`; tensors with a gradient graph are detached."""
    # Without no_grad, the copy of a scripted module has parameters that autograd has made.
    with between_steps(model), torch.no_grad():
        kept = [tensor for module in model.modules() for tensor in tensors_in(vars(module))]
        return without_hooks(
            copy.deepcopy(model, {id(tensor): tensor.detach().clone() for tensor in kept if not tensor.is_leaf})
        )


def _parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    if isinstance(model, ExportedModule):
        return model.signature
    forward: Any = getattr(model, "_orig_mod", model).forward  # torch.compile's own takes anything
    try:
        return inspect.signature(forward).parameters
    except ValueError:
        # A scripted module has no Python function.
        names = [argument.name for argument in forward.schema.arguments[1:]]
        return {name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names}


def _taken(named: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """Return the parts of a batch that `model` takes; a batch may include a target."""
    parameters = _parameters(model)
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return named
    return {name: value for name, value in named.items() if name in parameters or name not in TARGET_KEYS}


def _most_inputs(model: nn.Module) -> int | None:
    """Return the largest number of positional inputs of `model`; None if there is no limit."""
    parameters = _parameters(model).values()
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    by_position = [
        one for one in parameters if one.kind not in {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD}
    ]
    options = [isinstance(one.default, bool | int | float | str) for one in by_position]
    return [*options, True].index(True)
