"""Without a mouse in a real JupyterLab: the focus is seen, and no key reaches the notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

# What marks the focused element: a ring that differs from what it looks like without the focus.
FOCUS = """() => {
  const element = document.activeElement;
  const look = ({ outlineStyle, outlineWidth, boxShadow, borderColor }) =>
    JSON.stringify([outlineStyle === "none" ? "0px" : outlineWidth, boxShadow, borderColor]);
  const focused = look(getComputedStyle(element));
  element.blur();
  const blurred = look(getComputedStyle(element));
  element.focus();
  return [element.getAttribute("aria-label") ?? element.tagName, focused !== blurred];
}"""


def test_the_focus_is_seen_wherever_it_goes(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', out_features=8)")
    editor.button("Add node").focus()
    seen: dict[str, bool] = {}
    for _ in range(90):
        editor.press("Tab")
        if not editor.root.evaluate("root => root.contains(document.activeElement)"):
            break
        name, visible = editor.page.evaluate(FOCUS)
        seen[name] = visible
    assert {"Undo", "Graph", "Search node types", "Fit view"} <= set(seen), seen
    assert [name for name, visible in seen.items() if not visible] == []


def test_no_key_reaches_the_notebook_but_ctrl_s(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', 'ReLU', out_features=8)")
    editor.canvas.focus()
    before = workbench.state()
    # What JupyterLab makes of them: add, cut, delete and split cells, change their type, run, undo, restart, leave.
    keys = ("a", "b", "x", "c", "v", "z", "d", "d", "m", "y", "1", "0", "0", "i", "i", "k", "j", "l", "o")
    editor.press(*keys)
    editor.press("Shift+Enter", "Control+Enter", "Alt+Enter", "Control+Shift+Minus", "Shift+m", "Control+b")
    editor.press("Escape", "Escape")  # of the history that Z lists, and of the stroke that K begins
    editor.pick("relu1")
    editor.press("a", "b", "d", "d", "Shift+Enter", "Enter")
    editor.press("Control+a", "x", "d", "d")  # typed into the name
    editor.press("Escape")
    editor.root.get_by_role("searchbox").focus()
    editor.page.keyboard.type("xddab")
    editor.press("Shift+Enter", "Escape")
    editor.button("Fit view").focus()
    editor.press("d", "d", "x", "Shift+Enter")
    editor.canvas.focus()
    editor.press("Control+z")
    assert workbench.state() == before
    # Saving is the notebook's, from anywhere in the editor.
    workbench.page.evaluate(
        """() => {
          window.saved = window.finished = 0;
          const { commands, shell } = window.jupyterapp;
          const { saveState } = shell.currentWidget.context;
          saveState.connect((_, state) => { if (state.startsWith("completed")) window.saved += 1; });
          commands.commandExecuted.connect((_, { id, result }) => {
            if (id === "docmanager:save") result.then(() => { window.finished += 1; });
          });
        }"""
    )
    for place in (editor.canvas, editor.root.get_by_role("searchbox"), editor.button("Fit view")):
        before_saving = workbench.page.evaluate("[window.saved, window.finished]")
        place.focus()
        editor.press("Control+s")
        # JupyterLab ignores the key until the last save has its checkpoint too, which comes after it has "completed".
        workbench.page.wait_for_function(
            "([saved, finished]) => window.saved > saved && window.finished > finished", arg=before_saving
        )
    expect(editor.root).to_be_visible()


def test_a_focused_element_that_goes_leaves_the_focus_in_the_editor(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', 'ReLU', out_features=8)")
    before = workbench.state()
    editor.canvas.focus()
    editor.press("ArrowDown", "Alt+ArrowDown")
    expect(editor.node("linear1")).to_be_focused()
    workbench.execute("graph.remove('linear1')")
    expect(editor.node("linear1")).to_have_count(0)
    editor.press("d", "d", "x", "Shift+Enter")
    assert workbench.state() == before
    assert editor.root.evaluate("root => root.contains(document.activeElement)")
