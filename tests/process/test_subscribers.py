"""Subscribers come and go, each by its own hand."""

from __future__ import annotations

from collections.abc import Callable

from pnne_nb.process.subscribers import Subscribers, weakly


def test_each_is_taken_out_once_by_its_own_function() -> None:
    subscribers = Subscribers[str]()
    first, second = subscribers.add("a"), subscribers.add("a")
    subscribers.add("b")
    assert list(subscribers) == ["a", "a", "b"]
    first()
    first()
    assert list(subscribers) == ["a", "b"]
    second()
    assert (list(subscribers), len(subscribers)) == (["b"], 1)


def test_who_goes_through_them_sees_those_of_the_beginning() -> None:
    subscribers = Subscribers[Callable[[], object]]()
    called: list[str] = []

    def tell_and_leave() -> None:
        called.append("first")
        leave()
        subscribers.add(lambda: called.append("late"))

    leave = subscribers.add(tell_and_leave)
    subscribers.add(lambda: called.append("second"))
    for subscriber in subscribers:
        subscriber()
    assert called == ["first", "second"]


def test_a_weak_subscriber_is_called_while_its_object_lives() -> None:
    class Listener:
        def hear(self, said: str) -> None:
            heard.append(said)

    heard: list[str] = []
    listener = Listener()
    tell = weakly(listener.hear)
    tell("first")
    del listener
    tell("second")
    assert heard == ["first"]
