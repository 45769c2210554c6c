"""A canvas sends what changed, the parts that came with it, and texts of scripts once; what people do reaches the widgets."""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any

import ipywidgets
import pytest

from pnne_nb.widgets.dashboard.controls import LogSwitch
from pnne_nb.widgets.host.canvas import Canvas

pytestmark = pytest.mark.usefixtures("own_widgets")


def test_changes_are_sent_with_new_children_and_scripts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: SimpleQueue[Any] = SimpleQueue()
    switch, box = LogSwitch(lambda _message: None), ipywidgets.VBox()
    box.children = [switch]
    canvas = Canvas(box)
    monkeypatch.setattr(canvas, "send", lambda content, _buffers: sent.put(content))
    canvas._handle_custom_msg({"kind": "hello"}, [])
    first = sent.get(timeout=60)["views"]
    assert set(first) == {box.model_id, switch.model_id}
    assert "render" in first[switch.model_id]["state"]["_esm"]
    switch.log = True
    [(_, view)] = sent.get(timeout=60)["views"].items()
    assert view["state"]["log"] is True
    assert "_esm" not in view["state"]
    late = ipywidgets.HTML("late")
    box.children = [switch, late]
    assert set(sent.get(timeout=60)["views"]) == {box.model_id, late.model_id}
    late.value = "later"
    assert "later" in sent.get(timeout=60)["views"][late.model_id]["html"]
    switch.send({"kind": "reply", "id": 1})
    assert sent.get(timeout=60) == {"kind": "said", "model": switch.model_id, "content": {"kind": "reply", "id": 1}}
    canvas.close()


def test_what_people_do_reaches_the_widget_and_nonsense_does_nothing() -> None:
    pressed: list[object] = []
    button, field = ipywidgets.Button(), ipywidgets.Text()
    button.on_click(pressed.append)
    canvas = Canvas(ipywidgets.VBox([button, field]))
    canvas.views([canvas], [])

    def say(model: object, **data: Any) -> None:
        canvas._handle_custom_msg({"kind": "say", "model": model, "data": data}, [])

    say(button.model_id, method="custom", content={"event": "click"})
    say(field.model_id, method="update", state={"value": "relu"}, buffer_paths=[])
    assert pressed == [button]
    assert field.value == "relu"
    say("nobody", method="custom", content={})
    say(7, method="custom", content={})
    field.close()
    say(field.model_id if field.comm else "gone", method="update", state={"value": "x"}, buffer_paths=[])
    assert field.value == "relu"
    canvas.close()
