"""Messages from the browser are decoded, carried out, and answered by number; nothing they hold does harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pnne_nb.errors import TrainingError
from pnne_nb.protocol.control_messages import AckMessage, ChooseMessage, CommandMessage, ControlRequest
from pnne_nb.widgets.dashboard.controls import ControlBar, LayerChooser
from pnne_nb.widgets.host.pump import IN_FLIGHT

pytestmark = pytest.mark.usefixtures("own_widgets")


class Wire:
    """A control bar whose answers are kept instead of sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[ControlRequest], None]) -> None:
        self.bar = ControlBar(answer)
        self.answers: list[Any] = []
        monkeypatch.setattr(self.bar, "send", self.answers.append)

    def receive(self, content: object) -> None:
        self.bar._handle_custom_msg(content, [])


def test_messages_arrive_typed_and_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[ControlRequest] = []
    wire = Wire(monkeypatch, received.append)
    wire.receive({"kind": "command", "id": 1, "command": "pause"})
    wire.receive({"kind": "choose", "id": 2, "layer": "conv1"})
    wire.receive({"kind": "ack", "tick": 7})
    assert received == [CommandMessage(1, "pause"), ChooseMessage(2, "conv1"), AckMessage(7)]
    assert wire.answers == [{"kind": "reply", "id": 1, "error": None}, {"kind": "reply", "id": 2, "error": None}]
    wire.bar.close()


def test_the_page_is_told_how_many_frames_may_be_under_way() -> None:
    bar = ControlBar(print)
    assert bar.get_state()["in_flight"] == IN_FLIGHT
    bar.close()


def test_a_refusal_goes_back_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_message: ControlRequest) -> None:
        raise TrainingError("There is nothing to resume.")

    wire = Wire(monkeypatch, refuse)
    wire.receive({"kind": "command", "id": 5, "command": "resume"})
    assert wire.answers == [{"kind": "reply", "id": 5, "error": "There is nothing to resume."}]
    wire.bar.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"kind": "command", "id": 1, "command": "delete everything"}, "Invalid enum value"),
        ({"kind": "reboot", "id": 1}, "Invalid value"),
        ({"kind": "command", "id": 1}, "missing required field `command`"),
        ({"kind": "choose", "id": 1, "layer": "a", "__class__": "b"}, "unknown field"),
        ({"id": 1}, "missing required field `kind`"),
    ],
)
def test_a_bad_message_is_answered_with_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, content: object, reason: str
) -> None:
    received: list[ControlRequest] = []
    wire = Wire(monkeypatch, received.append)
    wire.receive(content)
    assert received == []
    (answer,) = wire.answers
    assert reason in answer["error"]
    wire.bar.close()


@pytest.mark.parametrize("content", ["nonsense", None, 3, [], {"kind": "ack", "tick": "x"}, {"id": "1"}])
def test_a_message_without_a_number_is_dropped(monkeypatch: pytest.MonkeyPatch, content: object) -> None:
    wire = Wire(monkeypatch, lambda _message: None)
    wire.receive(content)
    assert wire.answers == []
    wire.bar.close()


def test_a_closed_control_forgets_whom_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[ControlRequest] = []
    wire = Wire(monkeypatch, received.append)
    wire.bar.close()
    wire.receive({"kind": "ack", "tick": 1})
    assert received == []


def test_each_control_says_which_part_it_is_and_has_a_stable_text() -> None:
    bar, chooser = ControlBar(print), LayerChooser(print)
    assert (bar.part, chooser.part) == ("bar", "chooser")
    assert (repr(bar), repr(chooser)) == ("ControlBar()", "LayerChooser()")
    assert bar._esm == chooser._esm
    bar.close()
    chooser.close()


def test_pause_and_stop_are_carried_out_once_by_whoever_hears_of_them_first(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[ControlRequest] = []
    wire = Wire(monkeypatch, received.append)
    for number, command in enumerate(("pause", "resume", "stop")):
        content = {"kind": "command", "id": number, "command": command}
        wire.bar._overhear(content)
        assert (CommandMessage(number, command) in received) == (command != "resume")  # type: ignore[arg-type]  # the test knows its type
        wire.receive(content)
        assert received.count(CommandMessage(number, command)) == 1  # type: ignore[arg-type]  # the test knows its type
        assert wire.answers[-1] == {"kind": "reply", "id": number, "error": None}
    # Another page counts its messages as well.
    wire.receive({"kind": "command", "id": 0, "command": "pause"})
    assert received.count(CommandMessage(0, "pause")) == 2
    wire.bar.close()


def test_what_could_not_be_carried_out_at_once_is_tried_again_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_message: ControlRequest) -> None:
        raise TrainingError("Not now.")

    wire = Wire(monkeypatch, refuse)
    content = {"kind": "command", "id": 1, "command": "pause"}
    with pytest.raises(TrainingError, match="Not now"):
        wire.bar._overhear(content)
    wire.receive(content)
    assert wire.answers == [{"kind": "reply", "id": 1, "error": "Not now."}]
    wire.bar.close()
