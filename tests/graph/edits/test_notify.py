"""Notifications of committed changes: everybody is told all of them, in order, and a failure stops nobody."""

from __future__ import annotations

import logging

import pytest

from pnne_nb.graph.edits.notify import Notifications
from pnne_nb.graph.model.node import Transaction


def change(version: int) -> Transaction:
    return Transaction(version, (), "")


def test_what_an_observer_adds_is_told_after_what_all_are_being_told() -> None:
    delivery, told = Notifications(lambda: "net"), list[tuple[str, int]]()

    def first(done: Transaction) -> None:
        told.append(("first", done.version))
        if done.version == 1:
            delivery.add(change(2))
            delivery.deliver()  # while the first is being told: left to who is at it

    delivery.observe(first)
    delivery.observe(lambda done: told.append(("second", done.version)))
    delivery.add(change(1))
    delivery.deliver()
    assert told == [("first", 1), ("second", 1), ("first", 2), ("second", 2)]


def test_a_failing_observer_is_logged_with_document_and_version(caplog: pytest.LogCaptureFixture) -> None:
    delivery, told = Notifications(lambda: "net"), list[int]()

    def fails(_: Transaction) -> None:
        raise ValueError("no")

    delivery.observe(fails)
    delivery.observe(lambda done: told.append(done.version))
    for version in (1, 2):
        delivery.add(change(version))
    with caplog.at_level(logging.ERROR):
        delivery.deliver()
    assert told == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "An observer of net failed at version 1",
        "An observer of net failed at version 2",
    ]


def test_who_has_unsubscribed_is_told_nothing_more() -> None:
    delivery, told = Notifications(lambda: "net"), list[int]()
    end = delivery.observe(lambda done: told.append(done.version))
    delivery.add(change(1))
    delivery.deliver()
    assert len(delivery) == 1
    end()
    assert len(delivery) == 0
    delivery.add(change(2))
    delivery.deliver()
    assert told == [1]
