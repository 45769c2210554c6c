"""What widgets say during one drawing goes as one message, and says the same."""

from __future__ import annotations

import threading
from typing import Any

import bqplot
import comm
import ipywidgets
import numpy as np
import pytest
from ipywidgets.widgets.widget import _put_buffers

from pnne_nb.widgets.host.batched_updates import Picture

pytestmark = pytest.mark.usefixtures("own_widgets")

Message = tuple[str, dict[str, Any], list[Any]]


class Wire:
    """Keeps what is sent: whose it is, its data, its buffers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Message] = []

        def publish(
            of: comm.base_comm.BaseComm, _kind: str, data: Any = None, *_: Any, buffers: Any = None, **__: Any
        ) -> None:
            self.sent.append((of.comm_id, data, list(buffers or ())))

        monkeypatch.setattr(comm.DummyComm, "publish_msg", publish)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    return Wire(monkeypatch)


def line() -> bqplot.Lines:
    return bqplot.Lines(x=[], y=[], scales={"x": bqplot.LinearScale(), "y": bqplot.LinearScale()})


def apart(message: Message) -> list[Message]:
    """What js/src/controls/picture.ts makes of a picture."""
    _, data, buffers = message
    found: list[Message] = []
    for update in data["content"]["updates"]:
        own, buffers = buffers[: len(update["paths"])], buffers[len(update["paths"]) :]
        told = {"method": "update", "state": update["state"], "buffer_paths": update["paths"]}
        found.append((update["model"], told, own))
    assert buffers == []
    return found


def test_a_picture_is_one_message_that_says_what_the_single_ones_would(wire: Wire) -> None:
    label, one, other = ipywidgets.HTML(), line(), line()
    bar = ipywidgets.HTML()

    def draw(step: int) -> None:
        label.value = f"<b>{step}</b>"
        for drawn in (one, other):
            with drawn.hold_sync():
                drawn.x, drawn.y = np.arange(step, dtype=np.float32), np.full((2, step), step, np.float32)
        bar.value = str(step)

    wire.sent.clear()
    draw(5)
    single = wire.sent[:]
    assert len(single) == 4
    draw(7)
    wire.sent.clear()
    picture = Picture(bar)
    picture.include([label, one, other, bar])
    picture.include([one])
    with picture.drawn():
        draw(5)
        assert wire.sent == []
    (message,) = wire.sent
    assert message[0] == bar.comm.comm_id
    assert message[1]["method"] == "custom"
    assert apart(message) == single
    model, data, buffers = apart(message)[1]
    _put_buffers(data["state"], data["buffer_paths"], buffers)
    assert model == one.comm.comm_id
    assert np.frombuffer(data["state"]["x"]["value"], np.float32).tolist() == [0, 1, 2, 3, 4]
    wire.sent.clear()
    draw(6)
    assert len(wire.sent) == 4


def test_nothing_to_draw_is_no_message(wire: Wire) -> None:
    bar = ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar])
    wire.sent.clear()
    with picture.drawn():
        pass
    assert wire.sent == []


def test_what_was_drawn_before_an_error_arrives(wire: Wire) -> None:
    bar = ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar])
    wire.sent.clear()

    def fail() -> None:
        bar.value = "half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), picture.drawn():
        fail()
    ((_, data, _),) = wire.sent
    assert data["content"]["updates"][0]["state"] == {"value": "half"}


def test_answers_and_other_threads_do_not_wait_for_the_picture(wire: Wire) -> None:
    bar, other = ipywidgets.HTML(), ipywidgets.HTML()
    picture = Picture(bar)
    picture.include([bar, other])
    wire.sent.clear()
    with picture.drawn():
        bar.send({"kind": "reply"})
        thread = threading.Thread(target=lambda: other.set_trait("value", "now"))
        thread.start()
        thread.join()
        assert [data["method"] for _, data, _ in wire.sent] == ["custom", "update"]
    assert len(wire.sent) == 2


def test_a_closed_widget_is_left_out(wire: Wire) -> None:
    bar, closed = ipywidgets.HTML(), ipywidgets.HTML()
    closed.close()
    picture = Picture(bar)
    picture.include([bar, closed])
    wire.sent.clear()
    with picture.drawn():
        closed.value = "nobody hears it"
    assert wire.sent == []
