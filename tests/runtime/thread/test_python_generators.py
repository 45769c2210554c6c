"""Python's and NumPy's global generators while trainings run: nobody sees another one's numbers."""

from __future__ import annotations

import copy
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.thread.python_generators import (
    Generators,
    PrivateStates,
    States,
    close_generators,
    here,
    open_generators,
)
from pnne_nb.runtime.thread.rng import seeded_globals
from tests.runtime.tasks import FORMS, Drawing, engine, images, network, trained_losses

pytestmark = pytest.mark.timeout(120)

MTRAND: Any = sys.modules["numpy.random.mtrand"]
NUMPY: Any = np.random
PYTHON: Any = random


def draw() -> list[float]:
    """By several functions of each, some of which keep a number for the next call."""
    python = [random.random(), random.gauss(0, 1), random.randint(0, 99), random.choice([1.0, 2.0, 3.0])]
    numpy = [NUMPY.rand(), NUMPY.randn(), NUMPY.standard_normal(), NUMPY.ranf(), float(NUMPY.randint(99))]
    return [*python, *map(float, numpy)]


def in_new_thread(function: Callable[[], Any]) -> Any:
    """What `function` returns in a thread that the caller starts."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(60)


Elsewhere: TypeAlias = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """Runs a function in a thread that was there before any training."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result(60)
        yield lambda function: pool.submit(function).result(60)


@contextmanager
def training_is_open() -> Iterator[None]:
    open_generators()
    try:
        yield
    finally:
        close_generators()


def expected(count: int, seed: int) -> list[list[float]]:
    random.seed(seed)
    NUMPY.seed(seed)
    return [draw() for _ in range(count)]


def test_neither_sees_the_numbers_of_the_other(elsewhere: Elsewhere) -> None:
    others = expected(6, seed=5)
    alone = PrivateStates(3)
    with alone:
        mine = [draw() for _ in range(4)]
    random.seed(5)
    NUMPY.seed(5)
    found, own = [draw()], PrivateStates(3)
    with training_is_open():
        found.append(draw())
        with own:
            drawn = [draw()]
            found.append(elsewhere(draw))
            drawn.append(draw())
        found.append(draw())
        with own:
            drawn.append(draw())
            found.append(elsewhere(draw))
            drawn.append(draw())
    found.append(draw())
    assert (drawn, found) == (mine, others)


def test_the_functions_are_there_as_before_when_the_last_training_ends() -> None:
    names = [(module, name) for module in (PYTHON, NUMPY, MTRAND) for name in dir(module) if not name.startswith("__")]
    before = [getattr(module, name) for module, name in names]
    with training_is_open():
        assert PYTHON.random is not before[names.index((PYTHON, "random"))]
        with training_is_open():
            pass
        assert MTRAND._rand is not before[names.index((MTRAND, "_rand"))]
    assert all(getattr(module, name) is value for (module, name), value in zip(names, before, strict=True))


def test_every_function_of_both_modules_knows_the_thread() -> None:
    functions = [
        (module, name)
        for module, owner in ((PYTHON, PYTHON._inst), (NUMPY, MTRAND._rand))
        for name in dir(module)
        if getattr(getattr(module, name), "__self__", None) is owner
    ]
    assert len(functions) > 60
    before = {place: getattr(*place) for place in functions}
    with training_is_open():
        assert [place for place in functions if getattr(*place) == before[place]] == []


def test_a_name_that_was_bound_before_in_a_module_knows_the_thread(
    monkeypatch: pytest.MonkeyPatch, elsewhere: Elsewhere
) -> None:
    module: Any = ModuleType("somebodys")
    exec("from random import random, randint\nfrom numpy.random import rand", module.__dict__)
    monkeypatch.setitem(sys.modules, "somebodys", module)
    bound = module.random, module.randint, module.rand
    private = PrivateStates(3)
    with private:
        mine = [random.random(), random.randint(0, 99), NUMPY.rand()]
    with training_is_open(), PrivateStates(3):
        before = elsewhere(lambda: States.of(here()))
        assert [module.random(), module.randint(0, 99), module.rand()] == mine
        assert elsewhere(lambda: States.of(here())).same(before)
        elsewhere(module.random)
        assert not elsewhere(lambda: States.of(here())).same(before)
    assert (module.random, module.randint, module.rand) == bound


def test_a_step_may_reach_the_generators_by_any_name() -> None:
    functions: list[Callable[[], float]] = [random.random, NUMPY.rand, MTRAND._rand.random_sample]
    with PrivateStates(3):
        mine = [function() for function in functions]
    with training_is_open(), PrivateStates(3):
        # These names are in a list, where nobody finds them.
        assert [function() for function in functions] == mine


def test_a_name_that_is_bound_meanwhile_stays_good() -> None:
    with training_is_open():
        drawn, seeded = random.random, NUMPY.seed
    random.seed(4)
    first = random.random()
    random.seed(4)
    assert drawn() == first
    seeded(4)
    first = NUMPY.rand()
    seeded(4)
    assert NUMPY.rand() == first


def test_what_stands_there_meanwhile_is_a_generator_that_can_be_copied() -> None:
    with training_is_open():
        generator = MTRAND._rand
        assert isinstance(generator, np.random.RandomState)
        pickled: Callable[[Any], Any] = lambda one: pickle.loads(pickle.dumps(one))  # noqa: E731  # what is tested
        for copied in (copy.deepcopy, pickled):
            other = copied(generator)
            assert type(other) is np.random.RandomState
            assert other.rand(2).tolist() == [generator.rand(), generator.rand()]
        python = pickle.loads(pickle.dumps(PYTHON._inst))
        assert type(python) is random.Random
        assert python.random() == random.random()
        assert copy.copy(PYTHON._inst).random() == random.random()
        assert repr(generator).startswith("RandomState(MT19937)")


def test_another_bit_generator_of_numpy_is_everybody_elses(elsewhere: Elsewhere) -> None:
    usual = NUMPY.get_bit_generator()
    own = np.random.PCG64(1)
    first = np.random.RandomState(np.random.PCG64(1)).rand(3).tolist()
    NUMPY.set_bit_generator(own)
    try:
        with training_is_open(), PrivateStates(3):
            assert elsewhere(NUMPY.get_bit_generator) is own
            assert elsewhere(lambda: NUMPY.rand(2).tolist()) == first[:2]
            with pytest.raises(ValueError, match="cannot exchange NumPy's bit generator: set it before"):
                NUMPY.set_bit_generator(np.random.PCG64(2))
        assert NUMPY.get_bit_generator() is own
        assert NUMPY.rand() == first[2]
        with training_is_open():
            NUMPY.set_bit_generator(usual)
        assert NUMPY.get_bit_generator() is usual
    finally:
        NUMPY.set_bit_generator(usual)


def test_a_pool_that_a_step_starts_draws_as_the_step() -> None:
    with PrivateStates(3):
        mine = [draw() for _ in range(4)]
    others, start = expected(2, seed=5), threading.Thread.start
    random.seed(5)
    NUMPY.seed(5)
    with training_is_open():
        found = [in_new_thread(draw)]
        with PrivateStates(3):
            drawn = [in_new_thread(draw), draw()]
            with ThreadPoolExecutor(1) as pool:
                drawn += [pool.submit(draw).result(60), pool.submit(lambda: in_new_thread(draw)).result(60)]
        found.append(in_new_thread(draw))
    assert (drawn, found) == (mine, others)
    assert threading.Thread.start is start


def test_blocks_nest() -> None:
    with PrivateStates(1):
        first = [draw() for _ in range(3)]
    with PrivateStates(2):
        second = [draw() for _ in range(2)]
    outer, inner = PrivateStates(1), PrivateStates(2)
    with training_is_open():
        with outer:
            found = [draw()]
            with inner:
                nested = [draw()]
            found.append(draw())
            with seeded_globals(7):
                draw()
        with inner:
            nested.append(draw())
        with outer:
            found.append(draw())
    assert (found, nested) == (first, second)


def test_a_rewound_block_begins_again_whenever_it_first_draws() -> None:
    private = PrivateStates(1)
    with training_is_open():
        for _ in range(30):
            with private:
                pass
        for _ in range(3):
            with private:
                first = draw()
                private.rewind()
                assert draw() == first


def test_the_import_leaves_the_generators_alone() -> None:
    seen = "import random, numpy; random.seed(1); numpy.random.seed(1); {} print(random.random(), numpy.random.rand())"
    printed = [
        subprocess.run([sys.executable, "-c", seen.format(imports)], capture_output=True, text=True, check=True).stdout
        for imports in ("", "import pnne_nb.runtime.engine;")
    ]
    assert printed[0] == printed[1] != ""


def test_a_generator_of_ones_own_is_ones_own() -> None:
    own = Generators(random.Random(1), np.random.RandomState(1))
    numbers = np.random.default_rng(1).random(4).tolist()
    first = [own.python.random(), own.numpy.rand(), *numbers]
    own, generator = Generators(random.Random(1), np.random.RandomState(1)), np.random.default_rng(1)
    with training_is_open(), PrivateStates(3):
        assert [own.python.random(), own.numpy.rand(), *generator.random(4).tolist()] == first


# In trainings


@contextmanager
def disturbed() -> Iterator[None]:
    """Another thread draws and seeds all the time, by every generator."""
    done = threading.Event()
    rounds = threading.Semaphore(0)

    def disturb() -> None:
        while not done.is_set():
            random.seed(1)
            NUMPY.seed(1)
            torch.manual_seed(1)
            torch.default_generator.manual_seed(2)
            draw()
            rounds.release()

    thread = threading.Thread(target=disturb)
    thread.start()
    assert rounds.acquire(timeout=60)
    try:
        yield
        assert rounds.acquire(timeout=60)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("form", FORMS)
def test_a_training_that_draws_is_seeded_and_alone(form: str) -> None:
    alone = trained_losses(form)
    random.seed(9)
    NUMPY.seed(9)
    training = engine(**FORMS[form]())
    with disturbed():
        training.start()
        assert training.wait(60)
    assert training.history["loss"].tolist() == alone
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
    second.start()
    assert second.wait(60)
    assert second.history["loss"].tolist() == whole


def test_trainings_at_once_that_draw_are_what_they_are_alone() -> None:
    forms = [form for form in FORMS if "loss" in form]
    alone = [trained_losses(form) for form in forms]
    together = [engine(**FORMS[form]()) for form in forms]
    for one in together:
        one.start()
    assert all(one.wait(60) for one in together)
    assert [one.history["loss"].tolist() for one in together] == alone


def test_a_cells_numbers_are_as_without_a_training() -> None:
    numbers = expected(200, seed=5)
    training = engine(epochs=10**6, model=Drawing("numpy"))
    random.seed(5)
    NUMPY.seed(5)
    training.start()
    try:
        found = [draw() for _ in range(200)]
    finally:
        training.stop()
    assert found == numbers


def test_what_a_loss_draws_is_drawn_again_when_the_step_is_made_again() -> None:
    """An optimizer with a closure computes the same loss several times in a step."""
    seen: list[float] = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        seen.append(random.random() + NUMPY.rand())
        return nn.functional.cross_entropy(output, target)

    training = engine(loss=loss, optimizer=("LBFGS", {"max_iter": 3, "lr": 0.1}), epochs=1, batch_size=96)
    training.start()
    assert training.wait(60)
    assert len(seen) > 1
    assert len(set(seen)) == 1
