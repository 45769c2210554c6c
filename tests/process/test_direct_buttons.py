"""A page halts a training by an address with a secret, and nothing else can be done there."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pnne_nb.process.direct_buttons import DirectButtons, Press

SECONDS = 30.0


@pytest.fixture
def pressed() -> queue.SimpleQueue[Press]:
    return queue.SimpleQueue()


@pytest.fixture
def buttons(pressed: queue.SimpleQueue[Press]) -> Iterator[DirectButtons]:
    buttons = DirectButtons(pressed.put)
    yield buttons
    buttons.close()


def request(address: str, method: str = "POST") -> int:
    try:
        with urlopen(Request(address, method=method), timeout=SECONDS) as answer:
            status: int = answer.status
            return status
    except HTTPError as error:
        error.close()
        return error.code


def test_each_button_has_an_address(buttons: DirectButtons, pressed: queue.SimpleQueue[Press]) -> None:
    assert request(buttons.address + "/pause") == request(buttons.address + "/stop") == 204
    assert [pressed.get(timeout=SECONDS) for _ in range(2)] == ["pause", "stop"]


@pytest.mark.parametrize("path", ["x/pause", "/start", "", "/pause/", "/../pause"])
def test_nothing_else_does_anything(buttons: DirectButtons, pressed: queue.SimpleQueue[Press], path: str) -> None:
    assert request(buttons.address + path) == 404
    assert pressed.empty()


def test_only_a_post_presses(buttons: DirectButtons, pressed: queue.SimpleQueue[Press]) -> None:
    assert request(buttons.address + "/pause", "GET") == 404
    assert pressed.empty()


def test_what_is_no_request_does_no_harm(buttons: DirectButtons, pressed: queue.SimpleQueue[Press]) -> None:
    host, port = buttons.address.removeprefix("http://").partition("/")[0].split(":")
    for nonsense in (b"\x00", b"POST", b"\r\n\r\n", b"POST " + b"/" * 100_000):
        with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            connection.sendall(nonsense)
    assert request(buttons.address + "/pause") == 204
    assert pressed.get(timeout=SECONDS) == "pause"


def test_nobody_listens_once_they_are_closed(pressed: queue.SimpleQueue[Press]) -> None:
    buttons = DirectButtons(pressed.put)
    buttons.close()
    buttons.close()
    with pytest.raises(OSError, match="refused"):
        request(buttons.address + "/pause")
    assert pressed.empty()
