"""The dashboard in a real JupyterLab: it moves, it obeys while a cell is busy, and a reload finds it as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from pnne_nb.widgets.host.pump import IN_FLIGHT
from tests.axe import violations
from tests.browser.jupyter import PAGE_SECONDS, LabServer, Notebook, Theme, write_notebook
from tests.browser.pages import COUNT_PICTURES, DRAWN, DashboardPage

Show = Callable[..., Locator]

SETUP = """
import torch
from torch import nn
import pnne_nb as pn
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
y = torch.tensor(digits)
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()
        self.conv2, self.relu2 = nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()
        self.flatten, self.fc = nn.Flatten(), nn.Linear(144, 10)
    def forward(self, x):
        x = self.relu2(self.conv2(self.relu1(self.conv1(x))))
        return self.fc(self.flatten(x))
def training(checkpoint_dir="run", **options):
    return pn.TrainingEngine(Net(), (x[:1400], y[:1400]), (x[1400:], y[1400:]), epochs=10_000, device="cpu",
                             checkpoint_dir=checkpoint_dir, checkpoint_every=10_000, **options)
engine = training()
"""
SHOWN = 2
"""The cell with the dashboard."""
SHOW = "dashboard = pn.TrainingDashboard(engine); dashboard"


def paths(dashboard: Locator) -> list[str]:
    """What each figure draws, as SVG path data."""
    found: list[str] = dashboard.locator(".bqplot").evaluate_all(f"figures => figures.map({DRAWN})")
    return found


def validation_loss(dashboard: Locator) -> Locator:
    """The curve of the validation loss, drawn over the loss of each step and the smoothed one."""
    return dashboard.locator(".bqplot").first.locator("path.line").nth(2)


def press(dashboard: Locator, name: str) -> None:
    dashboard.get_by_role("button", name=name, exact=True).click()


def state(dashboard: Locator) -> Locator:
    return dashboard.get_by_role("status")


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook for all of these tests: its cells are run again for each."""
    write_notebook(lab_server.directory / "dashboard.ipynb", [SETUP, "", SHOW])
    with Notebook(lab_server, browser, "dashboard.ipynb") as notebook:
        yield notebook


@pytest.fixture
def show(notebook: Notebook) -> Iterator[Show]:
    """Return a function that shows a dashboard of a new training; what it is given is run between the two."""

    def show(between: str = "") -> Locator:
        notebook.write_cell(SHOWN - 1, between)
        for cell in range(SHOWN + 1):
            notebook.run_cell(cell)
        notebook.scroll_to(SHOWN)
        dashboard = notebook.page.locator(".pnne-dashboard")
        expect(dashboard).to_have_count(1)
        dashboard.locator(".bqplot").nth(5).wait_for()
        expect(state(dashboard)).to_have_text("Ready")
        return dashboard

    yield show
    notebook.evaluate("engine.state in {'running', 'paused'} and engine.stop()")


@pytest.fixture
def shown(notebook: Notebook, show: Show) -> tuple[Notebook, Locator]:
    return notebook, show()


def test_start_step_pause_stop_and_moving_plots(
    shown: tuple[Notebook, Locator], baseline_errors: frozenset[str]
) -> None:
    notebook, dashboard = shown
    press(dashboard, "Step")
    notebook.wait_for("engine.state == 'paused' and len(engine.history['loss']) == 1")
    expect(state(dashboard)).to_have_text("Paused")
    press(dashboard, "Resume")
    expect(state(dashboard)).to_have_text("Running")
    expect(dashboard.locator(".pnne-facts")).to_contain_text(re.compile(r"Epoch [\d,]+/10,000 · step [\d,]+ · \d+"))
    before = paths(dashboard)
    for figure, name in enumerate(("loss", "accuracy", "gradient norm", "activations", "memory", "time")):
        wait_for_another_picture(notebook, figure, before[figure], name)
    expect_to_see_what_is_sent(notebook)
    press(dashboard, "Pause")
    notebook.wait_for("engine.state == 'paused'")
    press(dashboard, "Stop")
    notebook.wait_for("engine.state == 'stopped'")
    expect(state(dashboard)).to_have_text("Stopped")
    assert set(notebook.console_errors) <= baseline_errors


BAD = """
bad = x[:1400].clone()
bad[245, 0, 3, 4] = float("nan")
engine = pn.TrainingEngine(Net(), (bad, y[:1400]), epochs=1, batch_size=8, shuffle=False, device="cpu")
"""


def test_a_training_that_a_nan_has_ended_goes_back_and_on_by_buttons(notebook: Notebook, show: Show) -> None:
    dashboard = show(BAD)
    press(dashboard, "Start")
    notebook.wait_for("engine.state == 'failed'")
    expect(dashboard).to_contain_text("of batch 31 is NaN")
    press(dashboard, "Show the batch")
    expect(dashboard).to_contain_text("245 of the training data")
    press(dashboard, "Go back")
    notebook.wait_for("engine.state == 'stopped' and engine.progress.step == 10")
    press(dashboard, "Start")
    notebook.wait_for("engine.state == 'failed'")
    press(dashboard, "Try without it")
    notebook.wait_for("engine.state == 'finished' and engine.progress.step == 174")
    expect(state(dashboard)).to_have_text(re.compile("^Finished, with"))


def wait_for_another_picture(notebook: Notebook, figure: int, before: str, name: str) -> None:
    def has_changed() -> bool:
        now = paths(notebook.page.locator(".pnne-dashboard"))[figure]
        return len(now) > 10 and now != before

    notebook.wait_until(has_changed, f"The picture of the {name} stays the same.")


def expect_to_see_what_is_sent(notebook: Notebook) -> None:
    """Each frame is a picture of its own, and there are many steps to a frame."""
    now = "(dashboard._bar.tick, engine.progress.step)"

    def seen() -> bool:
        notebook.page.evaluate(COUNT_PICTURES)
        first, first_step = notebook.evaluate(now)
        notebook.wait_for(f"dashboard._bar.tick >= {first + 30}")
        last, last_step = notebook.evaluate(now)
        notebook.wait_for(f"dashboard._bar.tick > {last + IN_FLIGHT}")  # so that these have been painted
        seen: dict[str, int] = notebook.page.evaluate("window.pictures.counts")
        # A page that is slow paints the frames that are under way together: those at most. The curves are drawn as often
        # as they look different, which is seldom where this is tried again and again.
        each = seen["progress"] >= (last - first) / IN_FLIGHT
        return each and min(seen.values()) > 1 and bool(last_step - first_step > last - first)

    # While a page gets no processor for seconds, the slow pulse for pages that do not answer goes on: then once more.
    notebook.wait_until(seen, "Of most frames there is no picture.", seconds=4 * PAGE_SECONDS)


def test_buttons_rate_and_chooser_react_while_a_cell_is_busy(notebook: Notebook, show: Show) -> None:
    # The only validation is the one that is asked for.
    dashboard = show("engine = training('asked', validate_every=None)")
    loss_key = dashboard.locator(".pnne-plot-heading").first.locator(".pnne-key")
    press(dashboard, "Start")
    expect(state(dashboard)).to_have_text("Running")
    with notebook.busy_cell('os.listdir("asked")') as busy:
        rate = dashboard.get_by_label("Learning rate")
        rate.fill("2e-3")
        rate.press("Enter")
        rate.blur()
        expect(rate).to_have_value("0.002")
        press(dashboard, "Pause")
        expect(state(dashboard)).to_have_text("Paused")
        expect(loss_key).to_have_text(["training"])
        press(dashboard, "Validate")
        expect(loss_key).to_have_text(["training", "validation"])
        expect(validation_loss(dashboard)).to_have_attribute("d", re.compile(r"^M.*L"))
        halted = DashboardPage(dashboard).step
        press(dashboard, "Save")
        checkpoints = notebook.directory / "asked"
        notebook.wait_until(lambda: [*checkpoints.glob(f"*-step-{halted}.ckpt")], "There is no checkpoint.")
        dashboard.get_by_label("Layer of the histogram").select_option("conv2")
        logarithmic = dashboard.locator(".pnne-switch .pnne-log")
        logarithmic.click()
        expect(logarithmic).to_have_attribute("aria-pressed", "true")
        press(dashboard, "Resume")
        expect(state(dashboard)).to_have_text("Running")
        press(dashboard, "Stop")
        expect(state(dashboard)).to_have_text("Stopped")
        expect(dashboard.get_by_text("The kernel does not answer").filter(visible=True)).to_have_count(0)
    assert notebook.evaluate("dashboard._chooser.layer") == "conv2"
    assert notebook.evaluate("dashboard._loss.log")
    assert notebook.evaluate("engine.optimizer.param_groups[0]['lr']") == 2e-3
    losses = "zip(engine.history.steps('val_loss').tolist(), engine.history['val_loss'].tolist())"
    assert notebook.evaluate(f"[step for step, loss in {losses} if loss == loss]") == [halted]
    assert f"-step-{halted}.ckpt" in notebook.text(busy)


def test_a_reload_shows_the_present(shown: tuple[Notebook, Locator]) -> None:
    notebook, dashboard = shown
    press(dashboard, "Start")
    notebook.wait_for("len(engine.history.epochs) >= 2")
    notebook.reload()
    notebook.scroll_to(SHOWN)
    expect(state(dashboard)).to_have_text("Running")
    expect(dashboard.locator(".pnne-facts")).to_contain_text("step")
    press(dashboard, "Stop")
    expect(state(dashboard)).to_have_text("Stopped")
    steps = notebook.evaluate("engine.progress.step")
    expect(dashboard.locator(".pnne-facts")).to_contain_text(f"step {steps:,}")
    notebook.reload()
    notebook.scroll_to(SHOWN)
    dashboard.locator(".bqplot").nth(5).wait_for()
    expect(dashboard.locator(".pnne-facts")).to_contain_text(f"step {steps:,}")
    expect(state(dashboard)).to_have_text("Stopped")
    notebook.wait_until(lambda: [*map(bool, paths(dashboard))] == [True] * 6, "A picture is empty.")


def test_a_failure_names_the_layer(notebook: Notebook, show: Show) -> None:
    dashboard = show("engine.module.conv2 = nn.Conv2d(5, 16, 3)")
    press(dashboard, "Start")
    alert = dashboard.get_by_role("alert").filter(has_text="conv2")
    expect(alert).to_be_visible()
    expect(alert.locator("code")).to_have_text("conv2")
    expect(state(dashboard)).to_have_text("Failed")
    notebook.screenshot("dashboard-failed", dashboard)


BREAK = """
nn.init.constant_(engine.module.conv2.bias, -100.0)
detach = pn.Inspector(engine.module).attach(engine)
"""


def test_what_is_wrong_stands_at_its_layer_with_what_to_try(notebook: Notebook, show: Show) -> None:
    dashboard = show(BREAK)
    press(dashboard, "Start")
    findings = dashboard.get_by_role("list", name="Findings")
    dead = findings.get_by_role("listitem").filter(has_text="of its outputs are 0")
    expect(dead).to_have_count(1)
    expect(dead.locator("code")).to_have_text(["relu2", "dead-relu"])
    expect(dead.locator(".pnne-hint")).to_contain_text("or use LeakyReLU or GELU")
    stuck = findings.get_by_role("listitem").filter(has_text="steps the loss is")
    expect(stuck).to_have_count(1)
    expect(stuck.locator(".pnne-hint")).to_contain_text("that gradients reach all layers")
    press(dashboard, "Stop")
    expect(state(dashboard)).to_have_text("Stopped")
    notebook.screenshot("dashboard-findings", dashboard)


TROUBLE = """
engine = pn.TrainingEngine(Net(), (1000 * x[:1400], y[:1400]), (x[1400:], y[1400:]), epochs=30, device="cpu",
                           optimizer=("SGD", {"lr": 1.0, "momentum": 0.999}))
detach = pn.Inspector(engine.module).attach(engine)
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_findings_have_pictures_by_probable_cause_and_can_be_dismissed(
    notebook: Notebook, show: Show, theme: Theme
) -> None:
    notebook.set_theme(theme)
    dashboard = show(TROUBLE)
    press(dashboard, "Start")
    items = dashboard.get_by_role("list", name="Findings").get_by_role("listitem")
    expect(items.first).to_contain_text("layers expect about 0 and 1")
    expect(items.first.locator(".pnne-evidence")).to_contain_text("standard deviation")
    momentum = items.filter(has_text="The momentum is 0.999")
    expect(momentum.locator(".pnne-evidence i")).to_have_count(2)
    notebook.wait_for("engine.state not in {'running', 'paused'} or len(engine.history.epochs) > 3")
    notebook.evaluate("engine.state in {'running', 'paused'} and engine.stop()")
    expect(state(dashboard)).to_have_text(re.compile("Stopped|Failed|Finished"))
    notebook.screenshot(f"dashboard-evidence-{theme}", dashboard)
    assert violations(notebook.page, ".pnne-bar") == ""
    # Those that there was no room for move up, so that the number may stay.
    items.first.get_by_role("button", name="Dismiss").click()
    expect(items.filter(has_text="layers expect about 0 and 1")).to_have_count(0)
    notebook.reload()
    notebook.scroll_to(SHOWN)
    expect(items.first).to_be_visible()
    expect(items.filter(has_text="layers expect about 0 and 1")).to_have_count(0)
    dashboard.get_by_role("button", name="Show the dismissed finding").click()
    expect(items.first).to_contain_text("layers expect about 0 and 1")


def test_running_the_cell_again_keeps_one_dashboard(shown: tuple[Notebook, Locator]) -> None:
    notebook, dashboard = shown
    notebook.evaluate("__import__('pnne_nb').TrainingDashboard(engine) is dashboard")
    widgets = notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)")
    for _ in range(5):
        notebook.run_cell(SHOWN)
    assert notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)") == widgets
    expect(dashboard).to_have_count(1)


def test_a_new_engine_in_the_same_cell_closes_the_old_dashboard(notebook: Notebook) -> None:
    notebook.write_cell(SHOWN - 1, SETUP + SHOW)
    notebook.run_cell(SHOWN - 1)
    dashboard = notebook.output_area(SHOWN - 1).locator(".pnne-dashboard")
    dashboard.wait_for()
    widgets = notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)")
    for _ in range(3):
        notebook.run_cell(SHOWN - 1)
    dashboard.wait_for()
    assert notebook.evaluate("len(__import__('ipywidgets').widgets.widget._instances)") == widgets
    expect(dashboard).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_below_a_finished_training_stand_the_ways_on_with_their_lines(
    notebook: Notebook, show: Show, theme: Theme
) -> None:
    notebook.set_theme(theme)
    dashboard = show(
        'engine = pn.TrainingEngine(Net(), (x[:1400], y[:1400]), (x[1400:], y[1400:]), epochs=1, device="cpu")'
    )
    panel = dashboard.locator(".pnne-next-steps")
    expect(panel).not_to_contain_text("Ship")
    press(dashboard, "Start")
    expect(state(dashboard)).to_have_text(re.compile("^Finished"))
    expect(panel).to_be_visible()
    press(dashboard, "Confusion")
    expect(panel).to_contain_text("pn.confusion(engine)")
    expect(panel.locator("table")).to_be_visible()
    panel.locator("table").scroll_into_view_if_needed()
    notebook.screenshot(f"next-steps-{theme}", panel)
    assert violations(notebook.page, ".pnne-next-steps") == ""
    press(dashboard, "App")
    expect(panel.locator(".pnne-app")).to_be_visible()
    notebook.set_theme("light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_rate_is_found_and_set_by_dragging_its_handle(notebook: Notebook, show: Show, theme: Theme) -> None:
    notebook.set_theme(theme)
    dashboard = show("engine = training()")
    press(dashboard, "Find a rate")
    finder = dashboard.locator(".pnne-rate-finder")
    expect(finder.get_by_role("status")).to_contain_text("over 3 seeds")
    line, handle = finder.locator("pre"), finder.locator(".bqplot .dot")
    expect(line).to_contain_text("engine.set_optimizer(lr=")
    finder.scroll_into_view_if_needed()
    notebook.screenshot(f"learning-rate-{theme}", finder)
    assert violations(notebook.page, ".pnne-rate-finder") == ""
    suggested, place = line.inner_text(), handle.bounding_box()
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    notebook.page.mouse.move(x, y)
    notebook.page.mouse.down()
    notebook.page.mouse.move(x - 120, y, steps=6)
    notebook.page.mouse.up()
    expect(line).not_to_have_text(suggested)
    press(dashboard, "Set this rate")
    expect(finder.get_by_role("status")).to_contain_text("The training goes on at")
    rate = line.inner_text().partition("lr=")[2].strip().removesuffix(")")
    notebook.wait_for(f"engine.optimizer.param_groups[0]['lr'] == {rate} and not engine.history['loss'].size")
    notebook.set_theme("light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(shown: tuple[Notebook, Locator], theme: Theme) -> None:
    notebook, dashboard = shown
    notebook.set_theme(theme)
    press(dashboard, "Start")
    notebook.wait_for("len(engine.history.epochs) >= 10")
    press(dashboard, "Pause")
    expect(state(dashboard)).to_have_text("Paused")
    assert notebook.screenshot(f"dashboard-{theme}", dashboard).stat().st_size > 10_000
    background = dashboard.evaluate("element => getComputedStyle(element).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (theme == "light")
    press(dashboard, "Stop")
    notebook.wait_for("engine.state == 'stopped'")


def test_a_decision_surface_is_painted_again(notebook: Notebook) -> None:
    notebook.run_cell(0)
    notebook.run("engine = training()\npn.DecisionSurface(engine, (x, y))")
    picture = notebook.page.locator(".bqplot image")
    before = picture.get_attribute("href")
    assert before is not None
    notebook.run("engine.step(20)\nengine.stop()")
    expect(notebook.page.locator(".bqplot", has_text="Answers after 20 steps")).to_be_visible()
    expect(picture).not_to_have_attribute("href", before)
