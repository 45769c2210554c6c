"""The registry: filled when first asked for what it has not, open to registration, observable."""

from __future__ import annotations

import msgspec
import pytest

from pnne_nb.errors import RegistrationError, UnknownTypeError
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import INSIDE

A, B = (NodeSpec(type=name, category="Test", kind="module") for name in ("Alpha", "Beta"))


def test_what_is_there_is_found_without_the_provider() -> None:
    calls: list[int] = []
    registry = Registry([A])

    def provider() -> list[NodeSpec]:
        calls.append(1)
        return [B, A]

    registry.provide(provider)
    assert registry["Alpha"] is A
    assert calls == []
    assert registry["Beta"] is B
    assert (list(registry), len(registry), calls) == (["Alpha", "Beta"], 2, [1])


def test_a_provider_that_fails_is_asked_again() -> None:
    registry = Registry()
    outcomes = iter((None, [B]))

    def provider() -> list[NodeSpec]:
        specs = next(outcomes)
        if specs is None:
            raise ImportError("torch is missing")
        return specs

    registry.provide(provider)
    with pytest.raises(ImportError, match="torch is missing"):
        registry.get("Beta")
    assert "Beta" in registry


def test_every_call_can_run_inside_of_contexts() -> None:
    function = NodeSpec(type="Gamma", category="Test", kind="function")
    registry = Registry()
    registry.register(function)
    assert registry["Gamma"].property_named("inside") is INSIDE
    registry.provide(lambda: [msgspec.structs.replace(function, type="Delta", kind="method")])
    assert registry["Delta"].property_named("inside") is INSIDE


def test_registering() -> None:
    registry = Registry([A])
    seen: list[NodeSpec] = []
    unsubscribe = registry.observe(seen.append)
    before = registry.revision
    registry.register(B)
    assert (seen, registry.revision) == ([B], before + 1)
    with pytest.raises(RegistrationError, match="A node type named 'Beta' already exists in category 'Test'"):
        registry.register(B)
    registry.register(B, replace=True)
    unsubscribe()
    unsubscribe()
    registry.register(A, replace=True)
    assert seen == [B, B]


def test_an_unknown_type_suggests_near_names() -> None:
    with pytest.raises(UnknownTypeError, match=r"There is no node type 'alpha'. Did you mean 'Alpha'\?"):
        Registry([A])["alpha"]
