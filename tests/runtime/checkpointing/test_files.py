from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import ArgumentError, CheckpointError, TrainingError
from pnne_nb.process.atomic_file import remove_unfinished
from pnne_nb.runtime.checkpointing.files import CheckpointDirectory, read, read_newest_good, write
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.telemetry.frames import CheckpointFrame, StepFrame
from tests.runtime.tasks import Noisy, engine, images, network, picture_graph

OPTIONS: dict[str, Any] = {
    "epochs": 3,
    "optimizer": ("AdamW", {"lr": 0.01}),
    "scheduler": ("OneCycleLR", {"max_lr": 0.02}),
    "grad_clip": 1.0,
}


def finish(trained: TrainingEngine) -> tuple[list[float], dict[str, list[float]], dict[str, Tensor]]:
    """Losses, metrics and weights after the rest of the training."""
    assert trained.start().wait(60)
    metrics = {name: trained.history[name].tolist() for name in trained.history if name != "memory"}
    return trained.history["loss"].tolist(), metrics, trained.model.state_dict()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """A stream that draws from the global generator."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        pictures, classes = images()
        for picture, label in zip(pictures, classes, strict=True):
            yield picture + 0.1 * torch.rand(()), label


DATA: dict[str, Callable[[], Any]] = {
    "tensors": images,
    "dataset": Noisy,
    "workers": lambda: DataLoader(Noisy(), 16, shuffle=True, num_workers=2),
    "sampler": lambda: DataLoader(
        TensorDataset(*images()), 16, sampler=WeightedRandomSampler(torch.linspace(0.1, 1, 96).tolist(), 96)
    ),
    "stream": Stream,
}


@pytest.mark.parametrize("form", list(DATA))
@pytest.mark.parametrize("interrupted_at", [1, 6, 9, 18])
def test_a_resumed_training_is_bit_identical(form: str, interrupted_at: int, tmp_path: Path) -> None:
    options = {**OPTIONS, "train_data": DATA[form](), "val_data": images(2)}
    if form == "stream":
        options["scheduler"] = ("StepLR", {"step_size": 1}, "step")
    undisturbed = finish(engine(**options))
    first = engine(**options)
    first.step(interrupted_at)
    first.save_checkpoint(tmp_path / "a.ckpt")
    first.stop()
    torch.manual_seed(1234)
    second = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), DATA[form](), images(2))
    assert second.progress.step == interrupted_at
    losses, metrics, weights = finish(second)
    assert losses == undisturbed[0]
    assert metrics == undisturbed[1]
    assert same(weights, undisturbed[2])


def test_a_graph_comes_back_from_its_checkpoint(tmp_path: Path) -> None:
    first = engine(model=picture_graph(), **OPTIONS)
    first.step(4)
    first.save_checkpoint(tmp_path / "a.ckpt")
    second = TrainingEngine.resume_from(tmp_path / "a.ckpt", train_data=images())
    first.resume()
    assert first.wait(60)
    assert finish(second)[0] == first.history["loss"].tolist()


def test_half_precision_resumes_with_its_scale(tmp_path: Path) -> None:
    first = engine(precision="16")
    first.step(3)
    first.save_checkpoint(tmp_path / "a.ckpt")
    first.resume()
    assert first.wait(60)
    second = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images())
    assert finish(second)[0] == first.history["loss"].tolist()


def test_a_running_training_can_be_saved(tmp_path: Path) -> None:
    first = engine(epochs=10_000)
    first.start()
    first.save_checkpoint(tmp_path / "a.ckpt")
    first.stop()
    second = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), epochs=10_000)
    known = second.progress.step
    assert second.history["loss"].tolist() == first.history["loss"].tolist()[:known]


def test_options_may_be_different_afterwards(tmp_path: Path) -> None:
    first = engine()
    first.step()
    first.stop()
    first.save_checkpoint(tmp_path / "a.ckpt")
    assert TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), epochs=7).epochs == 7


def test_a_complete_training_that_is_resumed_has_nothing_left_to_do(tmp_path: Path) -> None:
    first = engine(epochs=2, checkpoint_dir=tmp_path)
    losses = finish(first)[0]
    second = TrainingEngine.resume_from(tmp_path, network(), images())
    assert finish(second)[0] == losses
    assert (second.state, second.epochs) == ("finished", 2)
    third = TrainingEngine.resume_from(tmp_path, network(), images(), epochs=3)
    assert len(finish(third)[0]) == len(losses) * 3 // 2
    assert len(finish(second)[0]) == len(losses) * 2, "who starts it once more wants more"


def test_a_directory_keeps_the_latest_and_the_best(tmp_path: Path) -> None:
    trained = engine(epochs=5, checkpoint_dir=tmp_path / "run", val_data=images(2))
    assert trained.start().wait(60)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names[:3] == ["000003-step-18.ckpt", "000004-step-24.ckpt", "000005-step-30.ckpt"]
    assert set(names[3:]) <= {"best.ckpt", "best.ckpt.previous"}
    assert read(tmp_path / "run" / "best.ckpt").state["loop"]["place"]["steps"] > 0


def test_checkpoints_come_as_often_as_asked_and_at_the_end(tmp_path: Path) -> None:
    def steps(directory: Path) -> list[int]:
        return sorted(int(path.stem.rpartition("-")[2]) for path in directory.glob("0*.ckpt"))

    for name, every, expected in (("a", (5, "steps"), [5, 10, 12]), ("b", 2, [12]), ("c", None, [12])):
        trained = engine(checkpoint_dir=tmp_path / name, checkpoint_every=every)
        told: list[CheckpointFrame] = []
        trained.on("checkpoint", told.append)
        assert trained.start().wait(60)
        assert steps(tmp_path / name) == [frame.step for frame in told] == expected
        assert Path(told[-1].path).exists()


def test_what_is_best_is_known_after_resuming(tmp_path: Path) -> None:
    trained = engine(epochs=2, checkpoint_dir=tmp_path)
    assert trained.start().wait(60)
    best = (tmp_path / "best.ckpt").read_bytes()
    worse = TrainingEngine.resume_from(tmp_path, network(), images(), epochs=4, checkpoint_dir=tmp_path)
    worse.set_optimizer(lr=10.0)
    assert worse.start().wait(60)
    assert worse.history["train_loss"][-1] > worse.history["train_loss"][1]
    assert (tmp_path / "best.ckpt").read_bytes() == best


def test_stopping_in_the_middle_of_an_epoch_keeps_the_place(tmp_path: Path) -> None:
    trained = engine(checkpoint_dir=tmp_path)
    trained.step(8)
    trained.stop()
    assert TrainingEngine.resume_from(tmp_path, network(), images()).progress.step == 8


def test_a_later_training_in_the_same_directory_is_the_newest(tmp_path: Path) -> None:
    for steps in (9, 2):
        trained = engine(checkpoint_dir=tmp_path)
        trained.step(steps)
        trained.stop()
    assert TrainingEngine.resume_from(tmp_path, network(), images()).progress.step == 2


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    trained = engine(epochs=2, checkpoint_dir=tmp_path)
    assert trained.start().wait(60)
    newest = tmp_path / "000002-step-12.ckpt"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match=r"000002-step-12.ckpt is damaged.*Resumed from .*000001-step-6.ckpt instead"):
        resumed = TrainingEngine.resume_from(tmp_path, network(), images())
    assert resumed.progress.step == 6
    assert [anomaly.kind for anomaly in resumed.history.anomalies] == ["checkpoint-damaged"]
    with pytest.warns(UserWarning, match="is damaged"):
        assert TrainingEngine.resume_from(newest, network(), images()).progress.step == 6


def test_a_file_written_twice_keeps_the_one_before(tmp_path: Path) -> None:
    path, trained = tmp_path / "a.ckpt", engine()
    for _ in range(2):
        trained.step()
        trained.save_checkpoint(path)
    trained.stop()
    assert read_newest_good(path).state["last_epoch"] == 2
    path.write_bytes(path.read_bytes()[:-10])
    found = read_newest_good(path)
    assert found.state["loop"]["place"]["steps"] == 1
    assert found.path.name == "a.ckpt.previous"
    assert len(found.damaged) == 1
    path.unlink()
    assert read_newest_good(path).state["loop"]["place"]["steps"] == 1


def test_unfinished_files_are_swept_away(tmp_path: Path) -> None:
    (tmp_path / ".000001-step-3.ckpt-xyz").write_bytes(b"half")
    CheckpointDirectory(tmp_path).save(1, {})
    assert [path.name for path in tmp_path.iterdir()] == ["000001-step-1.ckpt"]


def test_what_another_training_writes_is_left_alone_and_told(tmp_path: Path) -> None:
    under_way = tmp_path / ".000007-step-3.ckpt-xyz"
    one, other = CheckpointDirectory(tmp_path), CheckpointDirectory(tmp_path)
    one.save(1, {})
    with under_way.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        other.save(1, {})
        assert under_way.exists()
    assert not other.shared, "it may have been the first, and be over"
    one.save(2, {})
    assert one.shared
    assert not under_way.exists()


def test_a_file_that_another_training_takes_for_unfinished_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Path] = []

    def flock(file: Any, how: int) -> None:
        if not swept:
            swept.append(Path(file.name))
            remove_unfinished(tmp_path, "*.ckpt")
            assert not swept[0].exists()
        original(file, how)

    original = fcntl.flock
    with monkeypatch.context() as patch:
        patch.setattr(
            fcntl, "flock", lambda file, how: flock(file, how) if how == fcntl.LOCK_EX else original(file, how)
        )
        write(tmp_path / "a.ckpt", {"value": 1})
    assert read(tmp_path / "a.ckpt").state["value"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]


@pytest.mark.parametrize("occupied", ["file", "link"])
def test_where_no_checkpoint_can_be_written_no_training_starts(occupied: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.touch() if occupied == "file" else run.symlink_to(tmp_path / "nowhere")
    trained = engine(checkpoint_dir=run)
    for start in (trained.start, trained.step):
        with pytest.raises(
            CheckpointError, match=r"No checkpoint can be .* leads nowhere, where .* another checkpoint_dir"
        ):
            start()
    assert trained.state == "idle"
    run.unlink()
    assert trained.start().wait(60)


@pytest.mark.parametrize("back_at", [9, None])
def test_training_goes_on_while_checkpoints_cannot_be_written(back_at: int | None, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def occupy(frame: StepFrame) -> None:
        if frame.step == 3:
            run.rename(tmp_path / "moved")
            run.touch()
        if frame.step == back_at:
            run.unlink()

    trained = engine(checkpoint_dir=run, checkpoint_every=(2, "steps"))
    trained.on("step", occupy)
    trained.start()
    if back_at is None:
        with pytest.raises(CheckpointError, match="cannot be written: there is a file") as found:
            trained.wait(60)
        assert in_brief(found.value).endswith(
            "Nothing is lost: start() goes on from here and tries again; save_checkpoint(path) writes one elsewhere. "
            "Between two steps."
        )
        assert trained.state == "failed"
        run.unlink()
        trained.start()
    assert trained.wait(60)
    assert (trained.state, trained.progress.step) == ("finished", 12)
    (told,) = trained.history.anomalies
    assert (told.kind, told.step) == ("checkpoint-failed", 4)
    assert (
        "The training goes on, and tries again when the next one is due; until then, there is none to" in told.message
    )
    losses = finish(engine())[0]
    assert trained.history["loss"].tolist() == losses
    assert TrainingEngine.resume_from(run, network(), images()).progress.step == 12


class Deadly(Noisy):
    """Its worker is killed in the second epoch, as long as it is told to be."""

    def __init__(self, flag: Path) -> None:
        super().__init__()
        self._flag = flag
        self._reads = 0

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self._reads += 1
        if self._reads > 140 and self._flag.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def test_what_is_trained_is_kept_when_a_worker_dies(tmp_path: Path) -> None:
    flag, run = tmp_path / "flag", tmp_path / "run"
    flag.touch()
    options: dict[str, Any] = {**OPTIONS, "num_workers": 1, "checkpoint_dir": run}
    trained = engine(train_data=Deadly(flag), **options)
    trained.start()
    with pytest.raises(TrainingError, match="killed by SIGKILL"):
        trained.wait(60)
    assert trained.state == "failed"
    flag.unlink()
    resumed = TrainingEngine.resume_from(run, network(), Deadly(flag), num_workers=1)
    assert resumed.progress.step == trained.progress.step > 6
    assert finish(resumed)[0] == finish(engine(train_data=Noisy(), **OPTIONS))[0]


def test_a_checkpoint_that_can_hold_no_such_thing_is_no_matter_of_room(tmp_path: Path) -> None:
    class Strange:
        def state_dict(self) -> dict[str, object]:
            return {"what": object()}

        def load_state_dict(self, state: dict[str, object]) -> None:
            raise NotImplementedError

    trained = engine(checkpoint_dir=tmp_path, stateful={"strange": Strange()})
    trained.start()
    with pytest.raises(CheckpointError):
        trained.wait(60)
    assert trained.progress.step == 6


@pytest.mark.parametrize("cut", [0, 5, 20, 60, 500])
def test_a_cut_file_is_noticed(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    write(path, {"value": torch.zeros(100)})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        CheckpointError, match=r"is damaged: its content does not match its checksum|is no checkpoint of"
    ):
        read(path)


def sealed(text: str, version: str = "1") -> bytes:
    """A file with `text` for its state and a checksum that is right."""
    metadata = {"pnne": version, "checksum": "0" * 64, "state": text}
    return tensor_file.sealed(safetensors.torch.save({"value": torch.zeros(3)}, metadata))


@pytest.mark.parametrize(
    "text",
    [
        '{"value": {"$": "tensor", "name": "other"}}',
        '{"value": {"$": "os.system", "items": ["echo harm"]}}',
        '{"value": {"$": "dtype", "name": "load"}}',
        '{"value": {"$": "set", "items": [[1]]}}',
        "no json",
    ],
)
def test_a_hostile_file_runs_nothing(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(sealed(text))
    with pytest.raises(CheckpointError, match="holds something else than a training's state"):
        read(path)
    assert "harm" not in capfd.readouterr().out


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo harm",)


def test_a_pickle_is_not_even_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.ckpt"
    torch.save({"format": 1, "value": Hostile()}, path)
    with pytest.raises(CheckpointError, match="is no checkpoint of a TrainingEngine"):
        read(path)
    assert "harm" not in capfd.readouterr().out


@pytest.mark.parametrize("at", range(0, 1000, 37))
def test_no_flipped_bit_goes_unnoticed(at: int, tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    write(path, {"value": torch.arange(100), "text": '"checksum":"' + "0" * 64})
    assert read(path).state["text"].startswith('"checksum"')
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << at % 8
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="damaged"):
        read(path)


def test_other_programs_can_read_the_weights(tmp_path: Path) -> None:
    trained = engine()
    trained.step()
    trained.stop()
    trained.save_checkpoint(tmp_path / "a.ckpt")
    tensors = safetensors.torch.load_file(tmp_path / "a.ckpt")
    weights = {name: tensors[f"loop.model.{name}"] for name in trained.model.state_dict()}
    assert same(weights, trained.model.state_dict())


def test_nothing_to_read_and_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read: No such file"):
        read_newest_good(tmp_path / "none.ckpt")
    with pytest.raises(CheckpointError, match="There is no checkpoint in"):
        read_newest_good(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        write(tmp_path / "file" / "a.ckpt", {})


def test_only_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        CheckpointError, match=r"it is a directory; give the path of a file in it, such as run/mine\.ckpt"
    ):
        write(tmp_path / "run", {})
    with pytest.raises(CheckpointError, match="a device or a pipe is there"):
        write(tmp_path / "pipe", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "run"]


def saved(tmp_path: Path, **options: Any) -> Path:
    trained = engine(**options)
    trained.step()
    trained.stop()
    trained.save_checkpoint(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


def test_what_a_checkpoint_cannot_hold_must_be_given_again(tmp_path: Path) -> None:
    path = saved(tmp_path, loss=torch.nn.CrossEntropyLoss())
    with pytest.raises(CheckpointError, match="The checkpoint cannot hold loss: give them to resume_from again"):
        TrainingEngine.resume_from(path, network(), images())
    assert TrainingEngine.resume_from(path, network(), images(), loss=torch.nn.CrossEntropyLoss()).state == "idle"
    with pytest.raises(CheckpointError, match=r"is of a plain nn.Module: give the model"):
        TrainingEngine.resume_from(path, train_data=images(), loss="CrossEntropyLoss")
    with pytest.raises(CheckpointError, match="A checkpoint holds no data: give train_data"):
        TrainingEngine.resume_from(path, network())


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(CheckpointError, match="The checkpoint does not fit this training"):
        TrainingEngine.resume_from(path, torch.nn.Sequential(torch.nn.Linear(36, 4)), images())


def test_what_is_asked_differently_of_an_optimizer_counts(tmp_path: Path) -> None:
    path = saved(tmp_path, optimizer=("SGD", {"lr": 0.1, "momentum": 0.5}), scheduler=("StepLR", {"step_size": 1}))
    for options, message in (
        (
            {"optimizer": "AdamW"},
            r"the state of \('SGD', .*\), with which 'AdamW' cannot go on: give the same optimizer",
        ),
        ({"optimizer": torch.optim.Adagrad}, "with which Adagrad cannot go on"),
        ({"scheduler": ("StepLR", {"step_size": 2})}, r"with which \('StepLR', .'step_size': 2.\) cannot go on"),
        ({"scheduler": ("ExponentialLR", {"gamma": 0.5})}, "with which .*ExponentialLR.* cannot go on: give the same"),
    ):
        with pytest.raises(TrainingError, match=message):
            TrainingEngine.resume_from(path, network(), images(), **options)
    resumed = TrainingEngine.resume_from(path, network(), images(), optimizer=("SGD", {"lr": 0.02, "momentum": 0.5}))
    group = resumed.optimizer.param_groups[0]
    assert (group["lr"], group["momentum"]) == (pytest.approx(0.02), 0.5)
    alone = TrainingEngine.resume_from(path, network(), images(), scheduler=None)
    assert alone.optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.timeout(300)
def test_killed_at_any_moment_a_training_resumes_bit_identically() -> None:
    # A few of what the script does a hundred times.
    run = subprocess.run([sys.executable, "scripts/kill_trials.py", "3"], capture_output=True, text=True, check=False)
    said = re.fullmatch(r"3 trials, (\d+) kills \(.*\), 3 bit-identical to the undisturbed run, 0 not\n", run.stdout)
    assert said is not None, run.stdout + run.stderr
    assert int(said[1]) >= 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_size": 32}, "batch_size: 32 now, 16 before; batches in an epoch: 3 now, 6 before"),
        ({"seed": 3}, "seed: 3 now, 0 before"),
        ({"train_data": tuple(torch.cat(pair) for pair in zip(images(), images(3), strict=True))}, "12 now, 6 before"),
    ],
)
def test_another_order_in_the_middle_of_an_epoch_is_told(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    trained = engine(checkpoint_dir=tmp_path)
    trained.step(8)
    trained.stop()
    given = {"train_data": images(), **options}
    resumed = TrainingEngine.resume_from(tmp_path, network(), **given)
    (anomaly,) = resumed.history.anomalies
    assert (anomaly.kind, anomaly.step) == ("data-changed", 8)
    assert f"{told}): the rest of epoch 2 has examples that were there before" in anomaly.message
    assert finish(resumed)[0][:8] == trained.history["loss"].tolist()
    between = TrainingEngine.resume_from(tmp_path / "000001-step-6.ckpt", network(), **given)
    assert not between.history.anomalies


def test_the_best_is_better_than_none(tmp_path: Path) -> None:
    trained = engine(checkpoint_dir=tmp_path)
    assert trained.start().wait(60)
    for path in tmp_path.glob("0*.ckpt"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"is damaged.*Resumed from .*best\.ckpt instead"):
        assert TrainingEngine.resume_from(tmp_path, network(), images()).progress.step in {6, 12}
    for path in tmp_path.glob("0*.ckpt"):
        path.unlink()
    with pytest.warns(
        UserWarning, match=r"The directory .* has no numbered checkpoints any more\. Resumed from .*best\.ckpt instead"
    ):
        TrainingEngine.resume_from(tmp_path, network(), images())


def test_a_damaged_checkpoint_that_an_engine_loads_is_told_as_well(tmp_path: Path) -> None:
    trained = engine(checkpoint_dir=tmp_path)
    assert trained.start().wait(60)
    newest = tmp_path / "000002-step-12.ckpt"
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"is damaged.*Resumed from .*000001-step-6\.ckpt instead"):
        trained.load_checkpoint(tmp_path)
    assert [anomaly.kind for anomaly in trained.history.anomalies] == ["checkpoint-damaged"]
    assert trained.progress.step == 6


def test_numbers_go_on_whatever_becomes_of_the_directory(tmp_path: Path) -> None:
    """Somebody removes what is there, links it elsewhere, or keeps files of other names in it."""
    run = tmp_path / "run"
    run.symlink_to(tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    kept = CheckpointDirectory(run)
    kept.save(1, {})
    for path in run.iterdir():
        path.unlink()
    for name in ("2nd-step-x.ckpt", "9-step-.ckpt", "x-step-3.ckpt"):
        (run / name).touch()
    assert kept.save(2, {}).name == "000002-step-2.ckpt"
    assert not kept.shared
    (run / "999999-step-3.ckpt").touch()
    assert kept.save(4, {}).name == "1000000-step-4.ckpt"
    assert kept.newest == run / "1000000-step-4.ckpt"
    assert kept.save(5, {}).exists()
    assert sorted(path.name for path in run.glob("[0-9]*-step-[0-9]*")) == [
        "1000000-step-4.ckpt",
        "1000001-step-5.ckpt",
        "999999-step-3.ckpt",
    ]


@pytest.mark.parametrize("operation", range(4))
def test_an_interrupt_while_a_checkpoint_is_written_leaves_a_good_one(
    operation: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, trained = tmp_path / "a.ckpt", engine()
    trained.step()
    trained.save_checkpoint(path)
    trained.step()
    done: list[str] = []

    def interrupted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            done.append(name)
            if len(done) == operation + 1:
                raise KeyboardInterrupt
            return original(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted("fsync", os.fsync))
        patch.setattr(Path, "replace", interrupted("replace", Path.replace))
        with pytest.raises(KeyboardInterrupt):
            trained.save_checkpoint(path)
    assert done == ["fsync", "replace", "replace", "fsync"][: operation + 1]
    assert read_newest_good(path).state["loop"]["place"]["steps"] == (2 if operation == 3 else 1)
    assert all(not each.name.startswith(".") for each in tmp_path.iterdir())
    trained.save_checkpoint(path)
    assert read(path).state["loop"]["place"]["steps"] == 2
    trained.resume()
    assert trained.wait(60)


def test_another_graph_with_the_same_weights_is_told(tmp_path: Path) -> None:
    saved(tmp_path, model=picture_graph())
    graph = picture_graph()
    graph.add("Dropout", name="drop", p=0.5)
    graph.disconnect("relu1.output", "flat.input")
    graph.connect("relu1", "drop")
    graph.connect("drop", "flat")
    graph.move("conv1", x=5.0, y=6.0)
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", graph, images())
    (anomaly,) = resumed.history.anomalies
    assert anomaly.kind == "graph-changed"
    assert "written with: drop changed. It goes on with the same weights, and computes something" in anomaly.message
    graph = picture_graph()
    graph.move("conv1", x=5.0, y=6.0)
    assert not TrainingEngine.resume_from(tmp_path / "a.ckpt", graph, images()).history.anomalies
    assert not TrainingEngine.resume_from(tmp_path / "a.ckpt", None, images()).history.anomalies


def test_an_option_that_there_is_not_is_refused_in_words(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(ArgumentError, match=r"takes no argument 'batchsize'\. Did you mean 'batch_size'"):
        TrainingEngine.resume_from(path, network(), images(), batchsize=3)
