from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread import rng
from pnne_nb.runtime.thread.rng import PrivateGenerators, PrivateRandomness, States, key_of, seeded_globals
from tests.runtime.tasks import FORMS, engine, images, network, trained_losses

CPU = torch.device("cpu")


def draw() -> tuple[float, float, float]:
    return torch.rand(()).item(), random.random(), float(np.random.rand())  # noqa: NPY002  datasets do


def private_draws(randomness: PrivateRandomness, count: int) -> list[tuple[float, float, float]]:
    drawn = []
    for _ in range(count):
        with randomness:
            drawn.append(draw())
        draw()
        torch.manual_seed(3)
    return drawn


def test_keys_of_near_places_are_unrelated() -> None:
    keys = {key_of(0, epoch, position) for epoch in range(20) for position in range(20)}
    assert len(keys) == 400
    assert all(0 <= key < 2**63 for key in keys)
    assert key_of(0, 1) == key_of(0, 1) != key_of(0, 2)


def test_private_numbers_depend_on_the_seed_and_on_nobody_else() -> None:
    first = private_draws(PrivateRandomness(1, CPU), 5)
    assert private_draws(PrivateRandomness(1, CPU), 5) == first
    assert private_draws(PrivateRandomness(2, CPU), 5) != first


def test_others_do_not_notice() -> None:
    with seeded_globals(9):
        expected = [draw() for _ in range(3)]
    with seeded_globals(9):
        found = []
        for _ in range(3):
            found.append(draw())
            with PrivateRandomness(1, CPU):
                draw()
    assert found == expected


def test_others_do_not_notice_an_exception_either() -> None:
    randomness = PrivateRandomness(1, CPU)
    before = torch.get_rng_state()
    try:
        with randomness:
            torch.rand(3)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_a_lost_device_does_not_hide_what_failed_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed assertion in a kernel, a GPU refuses to tell even the state of its generator."""
    device = torch.Generator()
    monkeypatch.setattr(rng, "_device_generators", lambda found: [device] if found.type == "cpu" else [])
    randomness = PrivateRandomness(1, CPU)
    first, read = private_draws(randomness, 1), rng._state_of

    def refuse(generator: torch.Generator) -> torch.Tensor:
        if generator is device:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return read(generator)

    def step() -> None:
        draw()
        monkeypatch.setattr(rng, "_state_of", refuse)
        raise KeyError("explanation")

    before = torch.get_rng_state()
    with pytest.raises(KeyError, match="explanation"), randomness:
        step()
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="device-side assert"), randomness:
        pass
    monkeypatch.undo()
    assert private_draws(randomness, 1) != first


def test_rewinding_begins_the_block_again() -> None:
    randomness = PrivateRandomness(1, CPU)
    with randomness:
        first = draw()
        randomness.rewind()
        assert draw() == first


def test_a_saved_state_continues() -> None:
    one, other = PrivateRandomness(1, CPU), PrivateRandomness(2, CPU)
    private_draws(one, 3)
    other.load_state_dict(one.state_dict())
    assert private_draws(other, 4) == private_draws(one, 4)


pytestmark = pytest.mark.timeout(120)

NUMPY: Any = np.random


def draw_all() -> list[float]:
    """By several functions of each, some of which keep a number for the next call."""
    python = [random.random(), random.gauss(0, 1), random.randint(0, 99), random.choice([1.0, 2.0, 3.0])]
    numpy = [NUMPY.rand(), NUMPY.randn(), NUMPY.standard_normal(), NUMPY.ranf(), float(NUMPY.randint(99))]
    return [*python, *map(float, numpy)]


def expected(count: int, seed: int) -> list[list[float]]:
    random.seed(seed)
    NUMPY.seed(seed)
    return [draw_all() for _ in range(count)]


def private(seed: int) -> PrivateGenerators:
    return PrivateGenerators(States.seeded(seed))


@pytest.fixture(params=["by their memory", "by their methods"], autouse=True)
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by their methods":
        monkeypatch.setattr(rng, "_LIES_BEHIND_HEADER", False)
        monkeypatch.setattr(rng, "_GAUSS_AT", None)
    else:
        # Otherwise, a step of a small model would take a fifth longer.
        assert rng._LIES_BEHIND_HEADER
        assert rng._GAUSS_AT is not None


def test_neither_sees_the_numbers_of_the_other() -> None:
    others, mine = expected(3, seed=5), expected(4, seed=3)
    random.seed(5)
    NUMPY.seed(5)
    found, own = [draw_all()], private(3)
    with own:
        drawn = [draw_all(), draw_all()]
    found.append(draw_all())
    with own:
        drawn += [draw_all(), draw_all()]
    found.append(draw_all())
    assert (drawn, found) == (mine, others)


def test_a_state_that_is_kept_goes_on_there() -> None:
    mine, own = expected(3, seed=3), private(3)
    with own:
        drawn = [draw_all()]
        began = own.states
        drawn.append(draw_all())
    again = PrivateGenerators(own.states)
    with again:
        drawn.append(draw_all())
    assert drawn == mine
    with PrivateGenerators(began):
        assert draw_all() == mine[0]


def test_another_kind_of_bit_generator_stays_everybody_elses() -> None:
    usual, own = NUMPY.get_bit_generator(), private(1)
    try:
        NUMPY.set_bit_generator(np.random.PCG64(3))
        first = [NUMPY.rand() for _ in range(2)]
        NUMPY.set_bit_generator(np.random.PCG64(3))
        found = [NUMPY.rand()]
        with own:
            assert draw_all() == expected_alone(1)
        assert [*found, NUMPY.rand()] == first
    finally:
        NUMPY.set_bit_generator(usual)


def expected_alone(seed: int) -> list[float]:
    with private(seed):
        return draw_all()


def test_blocks_nest() -> None:
    first, second = expected(3, seed=1), expected(2, seed=2)
    outer, inner = private(1), private(2)
    with outer:
        found = [draw_all()]
        with inner:
            nested = [draw_all()]
        found.append(draw_all())
        with seeded_globals(7):
            draw_all()
    with inner:
        nested.append(draw_all())
    with outer:
        found.append(draw_all())
    assert (found, nested) == (first, second)


def test_a_rewound_block_begins_again() -> None:
    own = private(1)
    for _ in range(3):
        with own:
            first = draw_all()
            own.rewind()
            assert draw_all() == first


def test_the_import_leaves_the_generators_alone() -> None:
    seen = "import random, numpy; random.seed(1); numpy.random.seed(1); {} print(random.random(), numpy.random.rand())"
    printed = [
        subprocess.run([sys.executable, "-c", seen.format(imports)], capture_output=True, text=True, check=True).stdout
        for imports in ("", "import pnne_nb.runtime.engine;")
    ]
    assert printed[0] == printed[1] != ""


# In trainings


@pytest.mark.parametrize("form", FORMS)
def test_a_training_that_draws_is_seeded_and_leaves_others_their_numbers(form: str) -> None:
    alone = trained_losses(form)
    random.seed(9)
    NUMPY.seed(9)
    training, drawn = engine(**FORMS[form]()), expected(9, seed=4)
    random.seed(4)
    NUMPY.seed(4)
    found = [draw_all()]
    for _ in range(8):
        training.step()
        found.append(draw_all())
    assert training.start().wait(60)
    assert training.history["loss"].tolist() == alone
    assert found == drawn
    assert trained_losses(form, seed=6) != alone


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [1, 10])
def test_a_training_that_draws_resumes_exactly(form: str, steps: int, tmp_path: Path) -> None:
    whole = trained_losses(form)
    arguments = FORMS[form]()
    first, saved = engine(**arguments), tmp_path / "mine.ckpt"
    try:
        first.step(steps)
        first.save_checkpoint(saved)
        # As if the process had been killed: nothing of what comes now is kept.
        first.step(2)
    finally:
        first.stop()
    random.seed(9)
    NUMPY.seed(9)
    arguments = FORMS[form]()
    model, data = arguments.pop("model", network()), arguments.pop("train_data", images())
    second = TrainingEngine.resume_from(saved, model, data, arguments.pop("val_data", None), **arguments)
    assert second.start().wait(60)
    assert second.history["loss"].tolist() == whole


def test_trainings_at_once_that_draw_are_what_they_are_alone() -> None:
    forms = [form for form in FORMS if "loss" in form]
    alone = [trained_losses(form) for form in forms]
    together = [engine(**FORMS[form]()) for form in forms]
    for one in together:
        one.start()
    assert all(one.wait(60) for one in together)
    assert [one.history["loss"].tolist() for one in together] == alone


def test_what_a_loss_draws_is_drawn_again_when_the_step_is_made_again() -> None:
    """An optimizer with a closure computes the same loss several times in a step."""
    seen: list[float] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        seen.append(random.random() + NUMPY.rand())
        return nn.functional.cross_entropy(output, target)

    training = engine(loss=loss, optimizer=("LBFGS", {"max_iter": 3, "lr": 0.1}), epochs=1, batch_size=96)
    assert training.start().wait(60)
    assert len(seen) > 1
    assert len(set(seen)) == 1
