"""A message reaches its widget while a cell keeps the installed ipykernel busy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from pnne_nb.widgets.host.displays import answer_while_busy

PATIENCE = 60.0

SETUP = """
import threading
from pnne_nb.widgets.dashboard.controls import ControlBar
heard = threading.Event()
bar = ControlBar(lambda message: heard.set())
print(bar.comm.comm_id)
"""


@pytest.fixture
def kernel() -> Iterator[BlockingKernelClient]:
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def receive(get: Callable[..., Any], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while True:
        message: dict[str, Any] = get(timeout=max(0.0, deadline - time.monotonic()))
        if wanted(message):
            return message


def stream_of(client: BlockingKernelClient, request: str) -> str:
    message = receive(
        client.get_iopub_msg,
        lambda message: message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == request,
    )
    text: str = message["content"]["text"]
    return text.strip()


def open_subshell(client: BlockingKernelClient) -> str | None:
    """Return the thread to which JupyterLab would send the click; None before ipykernel 7, which has none."""
    if int(version("ipykernel").partition(".")[0]) < 7:
        return None
    client.control_channel.send(client.session.msg("create_subshell_request"))
    created = receive(client.get_control_msg, lambda message: message["msg_type"] == "create_subshell_reply")
    subshell: str = created["content"]["subshell_id"]
    return subshell


def test_a_click_is_heard_during_a_cell_or_with_ipykernel_6_right_after_it(kernel: BlockingKernelClient) -> None:
    comm_id = stream_of(kernel, kernel.execute(SETUP))
    subshell = open_subshell(kernel)
    # Ends early where the click is heard; otherwise after `patience` seconds, and says so.
    patience = PATIENCE if subshell else 1
    busy = kernel.execute(f"print('busy', flush=True); print(heard.wait({patience}))")
    assert stream_of(kernel, busy) == "busy"
    content = {"method": "custom", "content": {"kind": "command", "id": 1, "command": "pause"}}
    click = kernel.session.msg("comm_msg", {"comm_id": comm_id, "data": content})
    if subshell:
        click["header"]["subshell_id"] = subshell
    kernel.shell_channel.send(click)
    assert stream_of(kernel, busy) == str(subshell is not None)
    assert stream_of(kernel, kernel.execute("print(heard.is_set())")) == "True"


class RedirectingComm:
    """A comm as ipykernel 7.4 has it."""

    def _reply_subshell_for(self, _data: object, _default: str | None) -> str | None:
        return None


class Widget:
    def __init__(self, comm: object) -> None:
        self.comm = comm


def test_the_redirection_is_switched_off_where_there_is_one() -> None:
    comm = RedirectingComm()
    assert answer_while_busy(Widget(comm)) is True
    assert comm._reply_subshell_for({}, "the browser's choice") == "the browser's choice"


@pytest.mark.parametrize("comm", [None, object()])
def test_other_comms_are_left_alone(comm: object) -> None:
    assert answer_while_busy(Widget(comm)) is False


def test_custom_messages_are_overheard_before_they_are_handed_on() -> None:
    comm, heard = RedirectingComm(), list[object]()

    def overhear(content: object) -> None:
        heard.append(content)
        raise RuntimeError("The widget is told of the message, too.")

    answer_while_busy(Widget(comm), overhear)
    for data in ({"method": "custom", "content": 1}, {"method": "update", "state": {}}, None):
        assert comm._reply_subshell_for(data, "the browser's choice") == "the browser's choice"
    assert heard == [1]
