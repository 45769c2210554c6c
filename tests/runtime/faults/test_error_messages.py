"""What does not fit is said with its place and both sides, not in torch's words alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torchmetrics
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pnne_nb.errors import TargetError, TrainingError
from pnne_nb.runtime.data.batches import said
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.error_messages import device_lost, loss_failed, model_failed
from pnne_nb.telemetry.frames import StateFrame
from tests.runtime import tasks
from tests.runtime.tasks import engine, images, network

PICTURES, CLASSES = images()
ONE_HOT = nn.functional.one_hot(CLASSES, 4)


def failure(model: nn.Module, data: Any, **options: Any) -> tuple[BaseException, StateFrame]:
    trained = engine(model=model, train_data=data, **options)
    trained.start()
    with pytest.raises(TrainingError):
        trained.wait(60)
    frame = trained.channel.drain()[-1]
    assert isinstance(frame, StateFrame)
    assert trained.error is not None
    return trained.error, frame


@pytest.mark.parametrize(
    ("outputs", "target", "options", "message"),
    [
        (3, CLASSES, {}, (r"CrossEntropyLoss cannot compare the model's output \(16, 3\) float32 with the target \(16,\) "
         r"int64: .*out of bounds.* The targets reach from \d to 3, and an output with 3 columns knows the classes 0 to "
         "2: give the last layer 4 outputs, or number the classes from 0")),
        (4, CLASSES - 1, {}, (r"The targets reach from -1 to 2, and an output with 4 columns knows the classes 0 to 3: "
         "number the classes from 0, or set ignore_index=-1 in the loss if -1 stands for no class")),
        (4, CLASSES - 9, {"batch_size": 96}, "The targets reach from -9 to -6, .*: number the classes from 0, as target . 9 does"),
        (4, torch.where(CLASSES > 1, -100, CLASSES - 1), {}, "The targets reach from -1 to 0, .*: number the classes from 0, or"),
        (4, ONE_HOT, {}, r"The target is one-hot: give target.float\(\), or the numbers of the classes, target.argmax\(1\)"),
        (4, ONE_HOT.bool(), {}, r"The target is one-hot: give target.float\(\), or the numbers of the classes, target"),
        (5, ONE_HOT, {}, r"The target is one-hot: give the numbers of the classes, target.argmax\(1\)"),
        (4, ONE_HOT.float(), {"loss": "NLLLoss"}, r"The target is one-hot: give the numbers of the classes, target.argmax\(1\)"),
        (4, ONE_HOT | ONE_HOT.roll(1, 1), {}, (r'Some examples have several ones: if classes do not exclude each other, '
         r'choose loss="BCEWithLogitsLoss" and give target.float\(\)')),
        (4, CLASSES.float(), {}, r"target \(16,\) float32: .* Numbers of classes must be integers: give target.long\(\)"),
        (4, CLASSES[:, None], {}, (r"target \(16, 1\) int64: 0D or 1D target tensor expected.* There is one number of a "
         r"class for each example: give target.squeeze\(1\)")),
        (4, CLASSES.int(), {}, r"Numbers of classes must be of type int64: give target.long\(\)"),
        (4, CLASSES.float()[:, None], {"loss": "BCEWithLogitsLoss"}, (r"BCEWithLogitsLoss cannot compare the model's "
         r"output \(16, 4\) float32 with the target \(16, 1\) float32")),
        (4, CLASSES, {"loss": "BCEWithLogitsLoss"}, 'For numbers of classes, choose loss="CrossEntropyLoss"'),
        (1, CLASSES.float(), {"loss": "BCEWithLogitsLoss"}, r"targets of the output's shape and type: y.reshape\(-1, 1\)\.\n"),
        (1, CLASSES > 1, {"loss": "BCELoss", "metrics": ()}, r"shape and type: y.reshape\(-1, 1\).float\(\)\.\n"),
        (1, CLASSES, {"loss": "BCEWithLogitsLoss"}, r"takes 0 and 1, and the targets are whole numbers from 0 to 3. .* 4 outputs"),
    ],
)  # fmt: skip
def test_targets_that_a_loss_cannot_take(outputs: int, target: Any, options: Any, message: str) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, outputs))
    error, frame = failure(model, (PICTURES, target), **options)
    assert isinstance(error, TargetError)
    assert isinstance(error, IndexError)
    with pytest.raises(TargetError, match=message):
        raise error
    assert frame.error is not None
    assert frame.error.startswith("TargetError: ")


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (PICTURES[:, :, :5], (r"The model fails at layer '5' \(Linear\(in_features=64, .*\)\) on a batch of inputs "
         r"\(16, 1, 5, 6\) float32: (addmm: )?mat1 and mat2 shapes .* The first dimension counts the examples")),
        (PICTURES.expand(96, 3, 6, 6), r"at layer '0' \(Conv2d\(1, 4.*\)\) on a batch of inputs \(16, 3, 6, 6\)"),
        (PICTURES.mul(9).to(torch.uint8), r"at layer '0' .* Of pixels, pn.images\(X\) makes"),
        (PICTURES[:, 0, 0, 0], r"at layer '0' .* Each example is a single number: give X\[:, None\], which is \[n, 1\]"),
        (PICTURES.double(), r"at layer '0' .* \(16, 1, 6, 6\) float64: .* give x.float\(\) to float32 layers"),
    ],
)  # fmt: skip
def test_inputs_that_a_plain_module_cannot_take_name_its_layer(pictures: Any, message: str) -> None:
    error, frame = failure(network(), (pictures, CLASSES))
    with pytest.raises(TrainingError, match=message):
        raise error
    assert frame.node == message.partition("'")[2].partition("'")[0]


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (torch.full((96, 6), 9), (r"at layer '0' \(Embedding\(5, 2\)\) .* The numbers reach from 9 to 9, and it has rows 0 "
         r"to 4: give it num_embeddings=10")),
        (torch.full((96, 6), -1), r"The numbers reach from -1 to -1, and it has rows 0 to 4: count from 0"),
        (torch.ones(96, 6), r"looks up whole numbers, here from 0 to 4: give x.long\(\)"),
    ],
)  # fmt: skip
def test_numbers_that_an_embedding_has_no_row_for(numbers: Tensor, message: str) -> None:
    model = nn.Sequential(nn.Embedding(5, 2), nn.Flatten(), nn.Linear(12, 4))
    error, frame = failure(model, (numbers, CLASSES))
    with pytest.raises(TrainingError, match=message):
        raise error
    assert frame.node == "0"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Softmax(dim=3), r"at layer '1' \(Softmax\(dim=3\)\) .* Dimension out of range"),
        (lambda: nn.Unflatten(1, (5, 5)), r"at layer '1' \(Unflatten"),
    ],
)
def test_what_torch_raises_in_a_layer_names_it(make: Callable[[], nn.Module], message: str) -> None:
    error, frame = failure(nn.Sequential(nn.Flatten(), make(), nn.Flatten(), nn.Linear(36, 4)), (PICTURES, CLASSES))
    with pytest.raises(TrainingError, match=message):
        raise error
    assert frame.node == "1"


def test_numbers_of_a_type_that_an_operation_does_not_take() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Softmax(1), nn.Linear(36, 4))
    error, _ = failure(model, (PICTURES.long(), CLASSES))
    with pytest.raises(
        TrainingError, match=r"not implemented for 'Long'\. Numbers must be of the type .* give x.float"
    ):
        raise error


def test_an_operation_without_a_deterministic_version_says_how_to_run_it() -> None:
    class Scattering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, pictures: Tensor) -> Tensor:
            scores: Tensor = self.net(pictures)
            return scores + torch.zeros_like(scores).put_(torch.arange(4), torch.ones(4))

    error, _ = failure(Scattering(), (PICTURES, CLASSES), deterministic=True)
    with pytest.raises(TrainingError, match=r"put_ does not have a deterministic .* With deterministic=False it runs"):
        raise error


class Own(RuntimeError):
    pass


class Raising(nn.Module):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.net = network()
        self._error = error

    def forward(self, pictures: Tensor) -> Tensor:
        raise self._error


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("kind", [KeyError, Own, IndexError, AttributeError])
def test_what_a_layer_of_somebody_s_own_raises_stays_what_it_is_and_names_it(
    kind: type[Exception], by_hand: bool
) -> None:
    error = kind("mine")

    def step(model: nn.Module, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    model = nn.Sequential(nn.Identity(), Raising(error))
    trained = engine(model=model, step_function=step if by_hand else None)
    trained.start()
    with pytest.raises(kind) as caught:
        trained.wait(60)
    assert caught.value is error
    assert caught.value.__notes__[0] == "In layer '1' (Raising)."


def test_what_says_enough_itself_is_left_alone() -> None:
    full = torch.OutOfMemoryError("no room")
    known = TrainingError("said well")
    for error in (full, known):
        assert loss_failed(error, nn.MSELoss(), PICTURES, CLASSES) is None
    model = network()
    batch: Any = None
    assert model_failed(full, model, batch) is None
    assert model_failed(known, model, batch) is None


def test_values_are_said_by_shape_and_type() -> None:
    assert (
        said({"x": torch.zeros(2, 3), "y": [torch.ones(1).long(), "text"]}) == "x: (2, 3) float32, y: (1,) int64, str"
    )
    assert said(()) == "of nothing"


def test_an_index_that_a_gpu_refuses_is_explained() -> None:
    lost = device_lost(RuntimeError("CUDA error: device-side assert triggered"))
    assert lost is not None
    with pytest.raises(TrainingError, match=r"a target outside the model's classes.* make one step with device='cpu'"):
        raise lost
    assert device_lost(RuntimeError("another")) is None


def test_a_metric_that_cannot_compare_is_named() -> None:
    error, _ = failure(network(), (PICTURES, CLASSES), metrics=(("f1", torchmetrics.F1Score("binary")),))
    with pytest.raises(
        TrainingError, match=r"The metric 'f1' cannot compare the model's output \(16, 4\) float32 with"
    ):
        raise error


class Counting:
    """A metric that fails where it is told to."""

    def __init__(self, fails_in: str) -> None:
        self._fails_in = fails_in

    def _may_fail(self, where: str) -> None:
        if where == self._fails_in:
            raise KeyError("score")

    def update(self, output: Any, target: Any) -> None:
        self._may_fail("update")

    def compute(self) -> float:
        self._may_fail("compute")
        return 1.0

    def reset(self) -> None:
        self._may_fail("reset")


@pytest.mark.parametrize(
    ("fails_in", "message"),
    [
        ("update", "In the metric 'mine', comparing the output (16, 4) float32 with the target (16,) int64."),
        ("compute", "In the metric 'mine', computing its value."),
        ("reset", "In the metric 'mine', forgetting the epoch before."),
    ],
)
def test_a_metric_that_fails_is_named(fails_in: str, message: str) -> None:
    trained = engine(metrics=[("mine", Counting(fails_in))])
    trained.start()
    with pytest.raises(KeyError, match="score") as caught:
        trained.wait(60)
    assert caught.value.__notes__[0] == message
    frame = trained.channel.drain()[-1]
    assert isinstance(frame, StateFrame)
    assert frame.error == f"KeyError: 'score'\n{message}"


class Broken(tasks.Noisy):
    def __getitem__(self, index: int) -> Any:
        if index == 47:
            raise ValueError("this picture is broken")
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_example_that_cannot_be_read_is_named(workers: int) -> None:
    trained = engine(train_data=Broken(), num_workers=workers, shuffle=False)
    trained.start()
    with pytest.raises(ValueError, match="this picture is broken"):
        trained.wait(60)
    (told,) = trained.history.anomalies
    assert told.kind == "data-failed"
    place = "The data failed while fetching batch 3 of epoch 1: "
    assert told.message == f"{place}ValueError: this picture is broken. While reading example 47."


def test_a_loss_of_three_things_says_what_it_compares() -> None:
    trained = engine(loss="CosineEmbeddingLoss", metrics=())
    trained.start()
    with pytest.raises(TargetError, match=r"It compares input1, input2, target: give a function that hands them over"):
        trained.wait(60)


def test_layers_of_another_type_say_which() -> None:
    trained = engine(network().double())
    trained.start()
    with pytest.raises(
        TrainingError, match=r"compute in, float64: give tensors, torch.as_tensor\(x\).to\(torch.float64\)"
    ):
        trained.wait(60)


@dataclass
class Scores:
    logits: Tensor


@pytest.mark.parametrize("returned", [lambda scores: (scores, scores.mean()), Scores])
def test_a_model_that_returns_its_loss_otherwise_is_told_how(returned: Callable[[Tensor], Any]) -> None:
    error, _ = failure(Several(returned), (PICTURES,), loss=None)
    with pytest.raises(
        TrainingError, match=r'return that alone, or a mapping such as {"loss": loss, "output": scores}'
    ):
        raise error


class Several(nn.Module):
    """Returns more than the scores of `network`."""

    def __init__(self, returned: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.net = network()
        self._returned = returned

    def forward(self, pictures: Tensor) -> Any:
        return self._returned(self.net(pictures))


@pytest.mark.parametrize(
    ("returned", "chosen"),
    [
        (lambda scores: (scores, scores.mean()), "[0]"),
        (lambda scores: {"logits": scores}, "['logits']"),
        (Scores, ".logits"),
    ],
)
def test_an_output_that_is_no_tensor_needs_a_loss_of_its_own(returned: Callable[[Tensor], Any], chosen: str) -> None:
    error, _ = failure(Several(returned), (PICTURES, CLASSES))
    with pytest.raises(TargetError, match=re.escape(f"loss=lambda output, target: loss(output{chosen}, target)")):
        raise error

    def loss(output: Any, target: Tensor) -> Tensor:
        scores = output.logits if chosen == ".logits" else output[0 if chosen == "[0]" else "logits"]
        return nn.functional.cross_entropy(scores, target)

    trained = TrainingEngine(Several(returned), (PICTURES, CLASSES), loss=loss, device="cpu", epochs=1)
    assert trained.start().wait(60)
    assert "train_accuracy" not in trained.history


@pytest.mark.parametrize("grad", [True, False])
def test_a_loss_that_does_not_depend_on_the_model(grad: bool) -> None:
    error, _ = failure(network(), (PICTURES, CLASSES), loss=lambda output, target: torch.zeros((), requires_grad=grad))
    with pytest.raises(TrainingError, match="the loss does not depend on the model's parameters"):
        raise error


def test_a_last_batch_of_one_example_is_too_few_for_batch_norm() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4))
    error, _ = failure(model, (PICTURES, CLASSES), batch_size=len(PICTURES) - 1)
    with pytest.raises(
        TrainingError, match=r"fails at layer '2'.*leaves more for the last batch .* or .*drop_last=True"
    ):
        raise error


@pytest.mark.parametrize("data", [(PICTURES, CLASSES), TensorDataset(PICTURES, CLASSES), tasks.Noisy()])
def test_a_last_batch_of_one_example_is_told_before_the_first_step(data: Any) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4))
    trained = engine(model=model, train_data=data, batch_size=95)
    trained.start()
    with pytest.raises(TrainingError, match=r"^The last batch of each epoch would have one example: .* layer '2'"):
        trained.wait(60)
    assert trained.progress.step == 0
    assert int(model[2].num_batches_tracked) == 0  # type: ignore[arg-type]  # a part of a Sequential is typed as any module


class ByTheData(nn.Module):
    """Runs on numbers only, not on shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4))

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.layers(pictures) if pictures.isfinite().all() else pictures
        return scores


def test_of_a_model_that_cannot_run_on_shapes_it_is_told_when_it_comes() -> None:
    error, _ = failure(ByTheData(), (PICTURES, CLASSES), batch_size=95)
    with pytest.raises(TrainingError, match=r"^The model fails at layer 'layers\.2'.*leaves more for the last batch"):
        raise error


class Frozen(nn.Module):
    """Its batch norm never compares examples."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4))

    def forward(self, pictures: Tensor) -> Tensor:
        scores: Tensor = self.layers(pictures)
        return scores

    def train(self, mode: bool = True) -> Frozen:
        super().train(mode)
        self.layers[2].eval()
        return self


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (Frozen, {}),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 4)), {}),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4)),
            {"train_data": DataLoader(TensorDataset(PICTURES, CLASSES), 95, drop_last=True)},
        ),
    ],
)
def test_a_last_batch_of_one_example_that_nobody_compares_is_no_fault(
    make: Callable[[], nn.Module], options: dict[str, Any]
) -> None:
    trained = engine(model=make(), **{"train_data": (PICTURES, CLASSES), "batch_size": 95, "epochs": 1} | options)
    assert trained.start().wait(60)


def test_of_a_graph_the_node_that_needs_more_examples_is_named_and_what_to_do() -> None:
    graph = tasks.picture_graph()
    graph.disconnect("flat.output", "fc.input")
    graph.add("BatchNorm1d", name="norm", num_features="auto")
    graph.connect("flat", "norm")
    graph.connect("norm", "fc")
    trained = engine(model=graph, batch_size=95)
    trained.start()
    with pytest.raises(TrainingError, match=r"'norm' failed.*last batch .*drop_last=True\. In a group") as found:
        trained.wait(60)
    assert [diagnostic.node for diagnostic in found.value.diagnostics] == ["norm"]


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(
    ("loss", "target", "said_so"),
    [
        ("MSELoss", CLASSES.float(), (r"MSELoss compares the model's output \(16, 1\) with the target \(16,\), both spread "
         r"to \(16, 16\)")),
        (nn.functional.l1_loss, CLASSES.float(), "l1_loss compares"),
        ("MSELoss", CLASSES.float()[:, None], None),
        (lambda output, target: nn.functional.mse_loss(output.squeeze(1), target), CLASSES.float(), None),
    ],
)  # fmt: skip
def test_a_loss_that_compares_all_outputs_with_all_targets_is_told_once(
    loss: Any, target: Tensor, said_so: str | None
) -> None:
    trained = engine(model=nn.Sequential(nn.Flatten(), nn.Linear(36, 1)), train_data=(PICTURES, target), loss=loss)
    assert trained.start().wait(60)
    told = [found for found in trained.history.anomalies if found.kind == "spread-targets"]
    assert len(told) == (said_so is not None)
    assert all(found.step <= 1 for found in told), "before the first step, or in it where the targets are whole numbers"
    if said_so is not None:
        assert re.match(said_so, told[0].message)
        assert told[0].hint == "Give the targets the output's shape: y.reshape(-1, 1)."
