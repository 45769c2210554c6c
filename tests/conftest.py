"""What every test stands on: one thread for torch, the same random numbers in any order, and nothing left behind.

Torch, ipywidgets and Playwright are looked after where a file of tests has imported them: the core's tests need none.
"""

from __future__ import annotations

import copy
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.schema.registry import _whole, registry
from pnne_nb.graph.schema.structural import STRUCTURAL
from tests import leaks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.second_device import SecondDevice

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None, derandomize=True)
hypothesis.settings.register_profile("thorough", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("PNNE_HYPOTHESIS", "dev"))

FAILED_FIRST = "pnne/failed_first"
"""Where pytest's cache has the tests that failed in the last run that was no repetition."""

SEED = int(os.environ.get("PNNE_SEED", "0"))
"""Of what tests draw; another one is for looking for tests that hang on their numbers."""

THREADS = int(os.environ.get("PNNE_THREADS", "1"))
"""Of torch's operators in this process; see ``scripts/processor_settings.sh``."""
REGISTERED = (
    ("pnne_nb.runtime.data.datasets", "_registered"),
    ("pnne_nb.runtime.monitoring.probes", "_measures"),
    ("pnne_nb.widgets.explorer.panel", "_fields"),
    ("pnne_nb.diagnosis.rules", "RULES"),
    ("pnne_nb.diagnosis.finding", "KINDS"),
    ("pnne_nb.export.formats", "FORMATS"),
)
"""Where what is registered from outside is kept, beside node types and blocks."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a script: tests that interrupt cells, and the kernels that they start, would never be.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _seed() -> None:
    random.seed(SEED)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(SEED)  # what code under test may draw with
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(SEED)


def pytest_collectstart(collector: pytest.Collector) -> None:
    # What a file draws when it is imported does not hang on the files before it.
    if isinstance(collector, pytest.Module):
        _seed()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    # What a file makes when it is imported lives through the tests of all files before it, any of which may close it.
    before = len(leaks.open_widgets())
    report = yield
    if isinstance(collector, pytest.Module) and len(leaks.open_widgets()) > before:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} makes widgets when it is imported. Make them in its tests."
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Playwright keeps an event loop running in this thread for as long as the browser lives, and there can be
    # only one: whatever runs a loop of its own comes first, also where several processes share the files of tests.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
    for notebook in {item.parent for item in items if hasattr(item.parent, "skip_compare")}:
        # A line of progress appears where a cell takes longer than a second.
        notebook.skip_compare = (*notebook.skip_compare, "stderr")  # type: ignore[union-attr]  # nbval's


_cells: set[str] = set()
"""Cells of notebooks that were run, also in other processes."""

_failed: set[str] = set()
"""Tests that failed in this run, also in other processes."""

_ran: set[str] = set()
"""Tests of this run: the first that fails again ends a repetition before the others."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if ".ipynb::" in report.nodeid:
        _cells.add(report.nodeid)
    _ran.add(report.nodeid)
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # A cell that fails can only be run again after the cells before it: ``--last-failed`` takes its whole notebook.
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        failed = cache.get("cache/lastfailed", {})
        notebooks = {nodeid.partition("::")[0] for nodeid in failed if ".ipynb::" in nodeid}
        cells = {cell: True for cell in _cells if cell.partition("::")[0] in notebooks}
        cache.set("cache/lastfailed", {**failed, **cells})
        if not session.config.option.lf:
            cache.set(FAILED_FIRST, sorted(_failed))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    # `make test` runs what failed once more. What passes then must not look like any other pass.
    cache = getattr(config, "cache", None)
    before = set(cache.get(FAILED_FIRST, [])) if cache is not None and config.option.lf else set()
    flaky = sorted(before & _ran - _failed)
    if flaky:
        terminalreporter.section("flaky: failed beside other tests, passed alone", yellow=True)
        for nodeid in flaky:
            terminalreporter.write_line(f"FLAKY {nodeid}", yellow=True)


def pytest_collection_finish() -> None:
    # Thousands of tests and their libraries stay to the end: whoever collects garbage need not walk through them.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # A line of progress appears where a cell takes longer than a second; the kernel of a notebook starts here.
    if ".ipynb" in item.nodeid:
        os.environ["PNNE_PROGRESS"] = "0"
    else:
        os.environ.pop("PNNE_PROGRESS", None)
    # Nor what a test draws on the tests before it, which differ where several processes share the files.
    _seed()


@pytest.fixture(autouse=True, scope="session")
def _one_torch_thread() -> None:
    # Results depend on the number of threads, and the machine is shared.
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(THREADS)


@pytest.fixture(autouse=True, scope="session")
def _notes_hooks() -> Iterator[None]:
    """Notes who registers hooks, so that a test can be asked for those that are left."""
    end = leaks.note_hooks()
    yield
    end()


@pytest.fixture(autouse=True, scope="session")
def _own_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary files of this process go where no other one makes any: what a test leaves there is its own."""
    tmp_path_factory.getbasetemp()  # stays where pytest keeps those of the latest runs
    # No `TemporaryDirectory`: a forked child that ends in the ordinary way would remove it.
    directory = tempfile.mkdtemp(prefix="pnne-tests-")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", directory)
        patch.setenv("TMPDIR", directory)
        yield
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(_one_torch_thread: None, _own_temporary_directory: None) -> Iterator[None]:
    """Fail a test that leaves threads, processes, files, variables, hooks, switches, widgets or comms behind."""
    before = leaks.now()
    yield
    left = leaks.left_since(before)
    assert not left, f"The test has left behind: {'; '.join(left)}. Close what it opened, and set back what it set."


@pytest.fixture(autouse=True, scope="module")
def _no_warm_server() -> Iterator[None]:
    """The process that starts the processes of trainings is kept for the kernel: here, for one file."""
    yield
    server = sys.modules.get("pnne_nb.runtime.training_process.process_server")
    if server is not None:
        server.server.close()


@pytest.fixture(scope="module")
def second() -> Iterator[SecondDevice]:
    """A process with a second device, for what is to be tried without a GPU."""
    from tests.second_device import SecondDevice  # noqa: PLC0415  # torch

    device = SecondDevice()
    yield device
    device.close()


@pytest.fixture
def own_widgets() -> Iterator[None]:
    """Close the widgets that the test has made: plots, and parts of what would close them if it were there."""
    before = set(leaks.open_widgets())
    yield
    for id in set(leaks.open_widgets()) - before:
        if id in leaks.open_widgets():
            leaks.open_widgets()[id].close()


@pytest.fixture(autouse=True)
def _registrations_undone() -> Iterator[None]:
    """Take back what a test registers for the whole process, so that no test depends on those before it."""
    types, listed, offered = dict(registry._specs), not registry._providers, set(blocks)
    tables = [getattr(sys.modules[module], name) for module, name in REGISTERED if module in sys.modules]
    kept = [(table, copy.copy(table)) for table in tables]
    yield
    for name in set(blocks) - offered:
        blocks.remove(name)
    for table, before in kept:
        table.clear()
        table.extend(before) if isinstance(table, list) else table.update(before)
    if not listed and not registry._providers:  # the test has loaded the catalogue
        types |= {spec.type: _whole(spec) for spec in (*STRUCTURAL, *sys.modules["pnne_nb.catalog"].specs())}
        listed = True
    if listed and registry._specs != types:
        registry._specs.clear()
        registry._specs.update(types)
        registry._revision += 1  # what was derived from the types is out of date


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium of the machine."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415  # only browser tests wait for it

    from tests.browser.jupyter import CHROMIUM_FLAGS, PAGE_SECONDS, chromium_path  # noqa: PLC0415  # as above

    # Playwright's own five seconds are too few for a busy machine.
    expect.set_options(timeout=PAGE_SECONDS * 1000)
    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS))
        yield browser
        browser.close()
