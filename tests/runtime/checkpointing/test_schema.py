"""Checkpoints of other versions, and whole files that lack something or hold something else."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.compiler.weights.tensor_file import pack
from pnne_nb.errors import CheckpointError, PnneError
from pnne_nb.process import __version__
from pnne_nb.runtime.checkpointing.files import read
from pnne_nb.runtime.checkpointing.schema import FORMAT
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime.tasks import engine, images, network

State = dict[str, Any]


def sealed(path: Path, state: State, **metadata: str) -> None:
    """A whole file of any form and content, as other versions may have written it."""
    text, tensors = pack(state)
    said = {"pnne": str(FORMAT), "checksum": "0" * 64, "state": text, **metadata}
    path.write_bytes(tensor_file.sealed(safetensors.torch.save(tensors, said)))


def of_format_1(state: State, *, first: bool) -> State:
    """What an earlier version would have written: the last of format 1, or the first of it."""
    old = copy.deepcopy(state)
    loop, place = old["loop"], old["loop"]["place"]
    standing = loop.pop("standing")
    del old["batches"]
    if first:
        for name in ("pieces", "seconds", "logged", "stateful"):
            del loop[name]
        for name in ("_compared", "_judged_at"):
            del place[name]
        for name in ("kinds", "missing", "drawing"):
            del old[name]
        del old["history"]["skipped_steps"]
        old["torch"], place["seconds"] = "2.11.0", 1.0
    place |= {f"_{name}": standing[name] for name in ("best", "best_epoch", "epochs_since_best")}
    return old


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints, the newer one in the middle of an epoch."""
    path = tmp_path_factory.mktemp("run")
    trained = engine(checkpoint_dir=path, scheduler=("OneCycleLR", {"max_lr": 0.02}), val_data=images(2))
    trained.step(8)
    trained.stop()
    return path


@pytest.fixture(scope="module")
def losses(run: Path) -> list[float]:
    """Of the rest of that training."""
    return rest(TrainingEngine.resume_from(run, network(), images(), images(2)))


def rest(trained: TrainingEngine) -> list[float]:
    assert trained.start().wait(60)
    found: list[float] = trained.history["loss"].tolist()
    return found


@pytest.mark.parametrize("first", [False, True])
def test_a_checkpoint_of_format_1_goes_on_with_what_it_has(
    *, first: bool, run: Path, losses: list[float], tmp_path: Path
) -> None:
    state = read(run / "000002-step-8.ckpt").state
    best = state["loop"]["standing"]["best"]
    sealed(tmp_path / "a.ckpt", of_format_1(state, first=first), pnne="1")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), images(2))
    standing = resumed._loop.standing
    assert (standing.best, standing.best_epoch) == (best, 1)
    told = [(anomaly.kind, anomaly.message) for anomaly in resumed.history.anomalies]
    assert [str(warning.message) for warning in warned] == [message for _, message in told]
    if first:
        ((kind, message),) = told
        assert kind == "checkpoint-older"
        assert "was written by an earlier version of pnne_nb, in format 1: it does not hold how small" in message
        assert "the state of stateful objects and of the loss. That begins afresh; everything else goes on." in message
    else:
        assert not told
    assert rest(resumed) == losses


def test_what_was_best_begins_afresh_where_no_file_tells(run: Path, tmp_path: Path) -> None:
    state = read(run / "000002-step-8.ckpt").state
    del state["loop"]["standing"]
    sealed(tmp_path / "a.ckpt", state, pnne="1", writer="0.0.7")
    with pytest.warns(UserWarning, match=r"by pnne_nb 0\.0\.7, in format 1: it does not hold what was best, for early"):
        resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), images(2))
    assert resumed._loop.standing.best_epoch == 0


def test_a_later_format_is_refused_even_where_an_earlier_file_could_be_read(run: Path, tmp_path: Path) -> None:
    whole = (run / "000001-step-6.ckpt").read_bytes()
    (tmp_path / "000001-step-6.ckpt").write_bytes(whole)
    sealed(tmp_path / "000002-step-8.ckpt", {}, pnne=str(FORMAT + 1), writer="9.1.0")
    with pytest.raises(
        CheckpointError,
        match=rf"000002-step-8.ckpt has format {FORMAT + 1}, written by pnne_nb 9\.1\.0: this is pnne_nb {__version__}, "
        rf"which reads formats up to {FORMAT}\. Update pnne_nb, or give the path of an earlier checkpoint",
    ):
        TrainingEngine.resume_from(tmp_path, network(), images())
    assert (tmp_path / "000001-step-6.ckpt").read_bytes() == whole
    assert TrainingEngine.resume_from(tmp_path / "000001-step-6.ckpt", network(), images()).progress.step == 6


def without(*path: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        for name in path[:-1]:
            state = state[name]
        del state[path[-1]]

    return change


def within(*path: Any, value: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        for name in path[:-1]:
            state = state[name]
        state[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("loop", "standing"), r"missing required field `standing` - at `\$\.loop`"),
        (without("loop", "place", "steps"), r"missing required field `steps` - at `\$\.loop\.place`"),
        (without("config", "seed"), "of the engine's arguments there is no seed"),
        (within("config", "speed", value=3), "the engine has no argument speed"),
        (within("loop", "place", "epoch", value="two"), r"Expected `int`, got `str` - at `\$\.loop\.place\.epoch`"),
        (within("loop", "more", value=1), r"contains unknown field `more` - at `\$\.loop`"),
        (within("history", "epoch_steps", value=[]), "not every metric has as many values as there are epochs"),
    ],
)
def test_a_part_that_is_missing_or_foreign_gives_way_to_the_one_before(
    change: Callable[[State], None], message: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "000001-step-6.ckpt").write_bytes((run / "000001-step-6.ckpt").read_bytes())
    state = read(run / "000002-step-8.ckpt").state
    change(state)
    sealed(tmp_path / "000002-step-8.ckpt", state, writer="0.1.0")
    with pytest.warns(UserWarning, match=message) as warned:
        resumed = TrainingEngine.resume_from(tmp_path, network(), images())
    assert f"(format {FORMAT}, written by pnne_nb 0.1.0) is whole, but not what this version" in str(warned[0].message)
    assert resumed.progress.step == 6
    assert [anomaly.kind for anomaly in resumed.history.anomalies] == ["checkpoint-damaged"]
    (tmp_path / "000001-step-6.ckpt").unlink()
    with pytest.raises(CheckpointError, match=message):
        TrainingEngine.resume_from(tmp_path, network(), images())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("loop", "model", "0.weight"), "Missing key.*0.weight.*Give resume_from the model and the arguments"),
        (without("loop", "optimizer", "param_groups"), "KeyError: 'param_groups'"),
        (within("loop", "randomness", "python", value=[3, [1, 2], None]), "does not fit this training: ValueError"),
        (within("loop", "standing", "weights", value={}), "the best weights are of another model"),
    ],
)
def test_a_state_that_does_not_fit_leaves_everything_as_it_was(
    change: Callable[[State], None], message: str, run: Path, tmp_path: Path
) -> None:
    state = read(run / "000002-step-8.ckpt").state
    change(state)
    sealed(tmp_path / "a.ckpt", state)
    trained = engine(scheduler=("OneCycleLR", {"max_lr": 0.02}), val_data=images(2))
    trained.step(3)
    trained.stop()
    before, losses = pack(trained._session.state_dict()), trained.history["loss"].tolist()
    with pytest.raises(CheckpointError, match=message):
        trained.load_checkpoint(tmp_path / "a.ckpt")
    after = pack(trained._session.state_dict())
    assert after[0] == before[0]
    assert all(torch.equal(after[1][name], value) for name, value in before[1].items())
    assert rest(trained)[:3] == losses


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            without("loop", "optimizer", "state", 2, "exp_avg"),
            "AdamW cannot restore its state .*: KeyError: 'exp_avg'\\.",
        ),
        (within("loop", "scheduler", "_schedule_phases", value=3), "OneCycleLR cannot restore its state .*: TypeError"),
        (
            within("loop", "metrics", "accuracy", "hits", value=torch.zeros(0)),
            "Accuracy cannot restore its state .*: ValueError",
        ),
    ],
)
def test_what_others_take_unseen_from_a_checkpoint_is_told_when_they_use_it(
    change: Callable[[State], None], message: str, run: Path, tmp_path: Path
) -> None:
    state = read(run / "000002-step-8.ckpt").state
    change(state)
    sealed(tmp_path / "a.ckpt", state)
    resumed = TrainingEngine.resume_from(tmp_path / "a.ckpt", network(), images(), images(2))
    resumed.start()
    told = rf"{message}.* The file is undamaged, but its contents are of another version, or were changed: resume"
    with pytest.raises(CheckpointError, match=told):
        resumed.wait(60)


def test_what_fails_after_resuming_for_another_reason_is_told_as_it_is(run: Path) -> None:
    def wrong(model: torch.nn.Module, batch: Any) -> Any:
        return dict[str, Any]()["loss"]

    resumed = TrainingEngine.resume_from(run, network(), images(), images(2), step_function=wrong)
    resumed.start()
    with pytest.raises(KeyError, match="loss"):
        resumed.wait(60)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a state has something, inside lists, too; the numbers of long lists are left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    return [path, *(place for name, item in items for place in places(item, (*path, name)))]


REMOVED = object()
FOREIGN = st.one_of(
    st.just(REMOVED),
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.just([]),
    st.just({}),
    st.builds(lambda n: {"x": n}, st.integers(0, 3)),
    st.builds(torch.zeros, st.integers(0, 3)),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_whole_file_holds_no_other_error_comes_of_it(run: Path, tmp_path: Path, data: st.DataObject) -> None:
    state = read(run / "000002-step-8.ckpt").state
    *path, last = data.draw(st.sampled_from(places(state)[1:]))
    value = data.draw(FOREIGN)
    inner: Any = state
    for name in path:
        inner = inner[name]
    if value is REMOVED:
        del inner[last]
    else:
        inner[last] = value
    sealed(tmp_path / "000002-step-8.ckpt", state, pnne=data.draw(st.sampled_from(["1", str(FORMAT)])))
    (tmp_path / "000001-step-6.ckpt").write_bytes((run / "000001-step-6.ckpt").read_bytes())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            resumed = TrainingEngine.resume_from(tmp_path, network(), images(), images(2))
        except PnneError:
            return
        told = {anomaly.message for anomaly in resumed.history.anomalies}
        assert {str(warning.message) for warning in warned} <= told
        if resumed._loop.steps == 6:
            assert any("Resumed from" in message for message in told)
