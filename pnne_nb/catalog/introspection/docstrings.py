"""Reads docstrings as plain text: a summary, and the meaning of each argument.

Torch writes Google style with reStructuredText roles and some LaTeX; forms and tooltips show plain text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

_HEADING = re.compile(
    r"\n([ \t]*)(?:Args|Arg|Arguments|Parameters|Inputs|Keyword args|Keyword arguments|Keyword Args|Keyword Arguments|kwargs)"
    r"::?[ \t]*(?=\n)"
)
_PORTS = ("Inputs:", "Outputs:", "Shape:")
_ENTRY = re.compile(
    r"\n([ \t]*)(?:[-*][ \t]+)?\**`{0,2}(\w+)`{0,2}\**((?:[ \t]*,[ \t]*\w+)*)[ \t]*(?:\([^\n]*?\))?[ \t]*:(?!:)[ \t]*"
)
_DIRECTIVE = re.compile(r"\n[ \t]*(?:\n|\.\. |::)")
_SIGNATURE = re.compile(r"[\w.]+\(.*\)\s*(->.*)?:?$")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_ROLE = re.compile(r":[\w:.+-]+:`~?\.?([^`<]*?)(?:\s*<[^`>]*>)?`")
_REFERENCE = re.compile(r":(?:class|func|meth):`~?\.?(?:torch\.)?((?:nn\.functional\.|nn\.|Tensor\.)?\w+)(?:\(\))?`")
_FORMULA = re.compile(r":math:`([^`]*)`")  # in which < is no link
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`_{1,2}")
_CODE = re.compile(r"`{1,2}([^`]*)`{1,2}_?")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")
_LATEX = {
    r"\times": "×", r"\cdot": "·", r"\leq": "≤", r"\geq": "≥", r"\le": "≤", r"\ge": "≥", r"\neq": "≠",
    r"\in": "∈", r"\infty": "∞", r"\left": "", r"\right": "", r"\alpha": "α", r"\beta": "β", r"\gamma": "γ",
    r"\lambda": "λ", r"\sigma": "σ", r"\mu": "μ", r"\rho": "ρ", r"\pi": "π", r"\eta": "η", r"\epsilon": "ε",
    r"\varepsilon": "ε", r"\tau": "τ", r"\delta": "δ", r"\theta": "θ", r"\sum": "∑", r"\ldots": "…",
    r"\dots": "…", r"\,": " ", r"\sqrt": "√", r"\{": "{", r"\}": "}", r"\_": "_", r"\star": "⋆",
    r"\lfloor": "⌊", r"\rfloor": "⌋", r"\lceil": "⌈", r"\rceil": "⌉", r"\otimes": "⊗", r"\frac": "\\",
}  # fmt: skip
_LATEX_WORD = re.compile(r"\\(?:[A-Za-z]+|[,{}_ ()])")
_LATEX_BRACES = re.compile(
    r"([A-Za-z]?)\\(?:text|mathrm|mathbf|mathcal|mathbin|operatorname|textit|textbf|texttt)\s*\{([^{}]*)\}"
)
_FRACTION = re.compile(r"\\\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}")

_BASE = re.compile(r"\{(\w+)\}(?=[_^])")
_SUBSCRIPT = re.compile(r"([_^])\{\s*([^{}]*)\}")

_LONGEST = 600
SENTENCES = 2
"""Property docs are cut after this many sentences: they are tooltips."""


def summary(doc: str | None) -> str:
    """Return the first paragraph of a docstring as plain text, without torch's signature line."""
    for block in _PARAGRAPH.split(doc or "", maxsplit=6):
        lines = [line.strip() for line in block.strip().splitlines()]
        while lines and (_SIGNATURE.match(lines[0]) or lines[0].startswith(".. ")):
            lines.pop(0)
        text = plain(" ".join(lines))
        if text:
            return text
    return ""


def arguments(doc: str | None, wanted: Collection[str]) -> dict[str, str]:
    """Return a docstring's text about each wanted argument, at most `SENTENCES` sentences of plain text."""
    found: dict[str, str] = {}
    if not wanted:
        return {}
    for heading in _HEADING.finditer(doc or ""):
        _read_section(doc or "", heading.end(), wanted, found)
        if len(found) == len(wanted):
            break
    return {name: _tooltip(text) for name, text in found.items()}


def ports(doc: str | None, wanted: Collection[str]) -> dict[str, str]:
    """Return a docstring's text about each wanted input and output: ``- Input: (N, C)`` under ``Shape:``."""
    text = doc or ""
    about: dict[str, str] = {}
    for heading in _PORTS:
        place = text.find(heading)
        if place < 0 or text[text.rfind("\n", 0, place) + 1 : place].strip():
            continue
        names = {name.capitalize() if heading == "Shape:" else name: name for name in wanted if name not in about}
        found: dict[str, str] = {}
        _read_section(text, text.find("\n", place), names, found)
        about |= {names[spelled]: _tooltip(entry) for spelled, entry in found.items()}
    return about


def references(doc: str | None) -> list[str]:
    """Return the dotted names under ``torch`` that a docstring refers to, in their order."""
    return _REFERENCE.findall(doc or "")


def _read_section(doc: str, start: int, wanted: Collection[str], found: dict[str, str]) -> None:
    """Add the entries of the section that begins at `start`, the end of its heading."""
    inner = -1
    names: list[str] = []
    begin = start

    def close(end: int) -> None:
        for name in names:
            if name in wanted and name not in found:
                found[name] = _DIRECTIVE.split(doc[begin : min(end, begin + _LONGEST)], maxsplit=1)[0]

    for entry in _ENTRY.finditer(doc, start):
        indent = len(entry[1])
        if inner < 0:
            if doc[start : entry.start()].strip():
                return
            inner = indent
        if indent > inner:
            continue
        end = entry.start()
        # A line that stands further out ends the section, even if it is no entry.
        outside = _outside(inner).search(doc, begin, end)
        close(end if outside is None else outside.start())
        if indent < inner or outside is not None or len(found) == len(wanted):
            return
        names = [entry[2], *re.findall(r"\w+", entry[3])] if entry[3] else [entry[2]]
        begin = entry.end()
    outside = _outside(max(inner, 0)).search(doc, begin)
    close(len(doc) if outside is None else outside.start())


@functools.cache
def _outside(indent: int) -> re.Pattern[str]:
    """Return the pattern of a line that is indented by less than `indent`, or not at all for 0."""
    return re.compile(rf"\n[ \t]{{0,{max(indent - 1, 0)}}}(?=[^ \t\n])")


def plain(text: str) -> str:
    """Return `text` without reStructuredText roles, links, backquotes and LaTeX commands."""
    if "{{" in text:
        # As in the docstrings that torch formats.
        text = text.replace("{{", "{").replace("}}", "}")
    if "`" in text:
        text = _ROLE.sub(r"\1", _FORMULA.sub(r"\1", text) if ":math:" in text else text)
        text = _CODE.sub(r"\1", _LINK.sub(r"\1", text))
    if "\\" in text:
        # A command would swallow the word: \cdot\text{heads}.
        text = _LATEX_BRACES.sub(lambda match: f"{match[1]} {match[2]}" if match[1] else match[2], text)
        text = _LATEX_WORD.sub(lambda match: _LATEX.get(match[0], match[0][1:]), text)
        text = _FRACTION.sub(lambda match: f"{_operand(match[1])}/{_operand(match[2])}", text)
        text = re.sub(r"\s*\\\s*", "/", text)
    if "{" in text:
        text = _SUBSCRIPT.sub(r"\1\2", _BASE.sub(r"\1", text))
    return " ".join(text.split())


def _operand(text: str) -> str:
    text = text.replace("{", "").replace("}", "").strip()
    return text if re.fullmatch(r"[\w.√]+", text) else f"({text})"


@functools.lru_cache(maxsize=4096)  # the same words stand at many functions
def _tooltip(text: str) -> str:
    # What follows "where" may be a formula on lines of its own, which no tooltip shows.
    return re.sub(r",? where:?$", "", " ".join(_SENTENCE.split(plain(text), maxsplit=SENTENCES)[:SENTENCES]))
