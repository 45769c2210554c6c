"""A page halts a training by an address with a secret, and nothing else can be done there."""

from __future__ import annotations

import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from pnne_nb.process import direct_buttons
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


@pytest.mark.skipif(not direct_buttons._DEFERRING, reason="elsewhere, a connection may be there before its request")
def test_whoever_looks_first_takes_a_click(
    buttons: DirectButtons, pressed: queue.SimpleQueue[Press], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The thread that waits for clicks has been woken, and waits for Python's lock: this one has it.
    woken, go_on = threading.Event(), threading.Event()

    def held_up(_listeners: object) -> None:
        woken.set()
        assert go_on.wait(SECONDS)

    monkeypatch.setattr(direct_buttons, "wait", held_up)
    assert request(buttons.address + "/pause") == 204  # taken as before; from here on, it is held up
    assert pressed.get(timeout=SECONDS) == "pause"
    assert woken.wait(SECONDS)
    host, port = buttons.address.removeprefix("http://").partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(f"POST /{buttons.address.rpartition('/')[2]}/stop HTTP/1.1\r\n\r\n".encode())
        while pressed.empty():
            buttons.look()
        assert connection.recv(1 << 10).startswith(b"HTTP/1.1 204")
    go_on.set()
    assert pressed.get() == "stop"
    assert pressed.empty()


def test_a_click_is_heard_before_it_is_taken() -> None:
    seen: queue.SimpleQueue[tuple[str, bool]] = queue.SimpleQueue()
    listening = DirectButtons(
        lambda press: seen.put((press, listening.pending)), lambda: seen.put(("heard", listening.pending))
    )
    try:
        assert request(listening.address + "/stop") == 204
    finally:
        listening.close()
    assert [seen.get(timeout=SECONDS) for _ in range(2)] == [("heard", True), ("stop", True)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a chosen thread have such a signal")
def test_the_system_tells_of_a_click_by_a_signal_that_interrupts_no_call_of_the_main_thread(
    pressed: queue.SimpleQueue[Press], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    # The thread that listens takes no click: the signal comes without its help.
    monkeypatch.setattr(direct_buttons, "wait", lambda *_: told.wait(SECONDS) and None)
    before = signal.signal(signal.SIGURG, lambda *_: told.set())
    listening = DirectButtons(pressed.put, signal=signal.SIGURG)
    try:
        host, port = listening.address.removeprefix("http://").partition("/")[0].split(":")
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGURG])
        with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            connection.sendall(f"POST /{listening.address.rpartition('/')[2]}/stop HTTP/1.1\r\n\r\n".encode())
            # This thread would not have it. It runs the handler all the same, where it has given Python's lock away.
            while not told.wait(0.01):
                pass
            assert pressed.get(timeout=SECONDS) == "stop"
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    finally:
        signal.signal(signal.SIGURG, before)
        listening.close()


def test_nobody_listens_once_they_are_closed(pressed: queue.SimpleQueue[Press]) -> None:
    buttons = DirectButtons(pressed.put)
    buttons.close()
    buttons.close()
    buttons.join(SECONDS)
    with pytest.raises(OSError, match="refused"):
        request(buttons.address + "/pause")
    assert pressed.empty()


def test_a_click_on_its_way_is_answered_when_they_are_closed(pressed: queue.SimpleQueue[Press]) -> None:
    buttons = DirectButtons(pressed.put)
    host, port = buttons.address.removeprefix("http://").partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        buttons.close()
        connection.sendall(f"POST /{buttons.address.rpartition('/')[2]}/stop HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(1 << 10).startswith(b"HTTP/1.1 204")
    buttons.join(SECONDS)
    assert pressed.empty()


def test_a_forked_child_does_not_listen(buttons: DirectButtons, pressed: queue.SimpleQueue[Press]) -> None:
    child = os.fork()
    if not child:
        os._exit(buttons.listens)
    assert os.waitpid(child, 0)[1] == 0
    assert buttons.listens
    assert request(buttons.address + "/pause") == 204
    assert pressed.get(timeout=SECONDS) == "pause"
