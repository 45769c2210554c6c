"""Messages from the browser are decoded, carried out, and answered by number; nothing they hold does harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pnne_nb.errors import TrainingError
from pnne_nb.widgets.controls import AckMessage, ChooseMessage, CommandMessage, ControlBar, LayerChooser, Message
from pnne_nb.widgets.pacing import IN_FLIGHT


class Wire:
    """A control bar whose answers are kept instead of sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[Message], None]) -> None:
        self.bar = ControlBar(answer)
        self.answers: list[Any] = []
        monkeypatch.setattr(self.bar, "send", self.answers.append)

    def receive(self, content: object) -> None:
        self.bar._handle_custom_msg(content, [])


def test_messages_arrive_typed_and_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Message] = []
    wire = Wire(monkeypatch, received.append)
    wire.receive({"kind": "command", "id": 1, "command": "pause"})
    wire.receive({"kind": "choose", "id": 2, "layer": "conv1"})
    wire.receive({"kind": "ack", "tick": 7})
    assert received == [CommandMessage(1, "pause"), ChooseMessage(2, "conv1"), AckMessage(7)]
    assert wire.answers == [
        {"kind": "reply", "id": 1, "error": None},
        {"kind": "reply", "id": 2, "error": None},
    ]
    wire.bar.close()


def test_the_page_is_told_how_many_frames_may_be_under_way() -> None:
    bar = ControlBar(print)
    assert bar.get_state()["in_flight"] == IN_FLIGHT
    bar.close()


def test_a_refusal_goes_back_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_message: Message) -> None:
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
    received: list[Message] = []
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
    received: list[Message] = []
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
