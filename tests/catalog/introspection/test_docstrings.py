"""Docstrings as plain text."""

from __future__ import annotations

import pytest

from pnne_nb.catalog.introspection import docstrings

TORCH = r"""
add(input, other, *, alpha=1, out=None) -> Tensor

Adds :attr:`other`, scaled by :attr:`alpha`, to :attr:`input`. See
:func:`~torch.sub` and `the page <https://example.org>`_.

.. math::
    \text{{out}}_i = \text{{input}}_i

Args:
    input (Tensor): the input tensor.
    other (Tensor or Number): the tensor or number to add
        to :attr:`input`. A second sentence. A third one.

Keyword arguments:
    alpha (Number, optional): the multiplier, :math:`\alpha \leq 1`
    low, high (float): bounds

Shape:
    - Input: not an argument.
"""


def test_summary_is_the_first_paragraph_without_markup() -> None:
    assert docstrings.summary(TORCH) == "Adds other, scaled by alpha, to input. See torch.sub and the page."


def test_arguments_are_read_from_their_sections() -> None:
    assert docstrings.arguments(TORCH, {"input", "other", "alpha", "low", "high", "Input"}) == {
        "input": "the input tensor.",
        "other": "the tensor or number to add to input. A second sentence.",
        "alpha": "the multiplier, α ≤ 1",
        "low": "bounds",
        "high": "bounds",
    }


def test_ports_are_read_from_the_shapes() -> None:
    doc = r"""
    Does it.

    Inputs: input, (h_0, c_0)
        * **input**: of shape :math:`(L, H_{in})`
        * **h_0**: the first state. Defaults to zeros. And more.

    Shape: more of it
        - Input: not this, it was told above
        - Target: :math:`(N, C_{\text{out}})`, where

          .. math:: C = 1
        - Output: the same. The Shape: of it.

    Example::
        - Other: no
    """
    assert docstrings.ports(doc, {"input", "h_0", "target", "output", "Other", "other"}) == {
        "input": "of shape (L, H_in)",
        "h_0": "the first state. Defaults to zeros.",
        "target": "(N, C_out)",
        "output": "the same. The Shape: of it.",
    }
    assert docstrings.ports(None, {"input"}) == docstrings.ports("Shape: is not a heading here", {"input"}) == {}


def test_only_wanted_arguments_are_read() -> None:
    assert docstrings.arguments(TORCH, {"alpha"}).keys() == {"alpha"}


@pytest.mark.parametrize("doc", [None, "", "\n\n", "f(x) -> Tensor", ".. note:: hidden"])
def test_nothing_to_say(doc: str | None) -> None:
    assert docstrings.summary(doc) == ""
    assert docstrings.arguments(doc, {"x"}) == {}


def test_references_name_what_a_docstring_refers_to() -> None:
    doc = "See :class:`~torch.nn.ReLU`, :func:`torch.add` and :meth:`~Tensor.view`."

    assert docstrings.references(doc) == ["nn.ReLU", "add", "Tensor.view"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r":math:`\beta \times 2`", "β × 2"),
        ("``None`` or *x*", "None or *x*"),
        (r"\text{size} and \frac{a}{b}", "size and a/b"),
        (r"1 - \frac{1}{\sqrt{E}} of \frac{\text{in\_channels}}{\text{groups}}", "1 - 1/√E of in_channels/groups"),
        (r"\left\lceil \frac{end - start}{step} \right\rceil", "⌈ (end - start)/step ⌉"),
        (r"(*, C \frac g, H)", "(*, C/g, H)"),
        (r"from :math:`{{\text{{base}}}}^{{\text{{end}}}}` on", "from base^end on"),
        (r":math:`\text{input} < 1` is", "input < 1 is"),
        (r"\texttt{p} and :math:`mask\ =\ 0` or \(a\)", "p and mask = 0 or (a)"),
        (r":math:`(N\cdot\text{num\_heads}, H_{\text{in}})`", "(N· num_heads, H_in)"),
        ("two   spaces\n", "two spaces"),
    ],
)
def test_plain(text: str, expected: str) -> None:
    assert docstrings.plain(text) == expected
