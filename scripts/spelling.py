"""Look for words that no dictionary has: ``python scripts/spelling.py``. It prints each with the nearest word.

The dictionary is pyspellchecker's, beside ``known_words.txt``: names, words of the field, and British forms, which the texts
use. Read are the pages and notebooks of ``plain_language.py``, every docstring and sentence of the package, and what the front
end shows: strings with a space between two words, and the text between tags. Code is left out.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spellchecker import SpellChecker

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as a script, too

from scripts import plain_language

ROOT: Final = plain_language.ROOT
KNOWN: Final = Path(__file__).with_name("known_words.txt")

_CODE: Final = re.compile(
    r"(?m:^ +\w+:)|``.*?``|`[^`]*`|::\n.*|https?://\S+|\]\([^)]*\)|<[^>]*>|\{[^}]*\}|'[\w.*-]+'|\"[^\"]*\"", re.DOTALL
)
# Not a part of a name, a path or a call.
_WORD: Final = re.compile(r"(?<![\w./@#$%&{}_\\])(?<!--)[A-Za-z][a-z']+(?![\w_(=]|\.\w|/\w)")
_SENTENCE: Final = re.compile(r"\w \w.*[a-z)`][.?](?:\s|$)", re.DOTALL)
_SAID: Final = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`|(?<![=-])>([^<>{}=;]*)<")
"""Strings of TypeScript, and the text of an element."""
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<![:\"])//[^\n]*", re.DOTALL)
_FILLED: Final = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_AMERICAN: Final = re.compile(r"(?:iz|yz)(?:e[drs]?|ers|ing|ations?|able)$")

_BRITISH: Final = (("([iy])z", r"\g<1>s"), ("or", "our"), ("ter", "tre"))


def main() -> None:
    """Print what is found, and exit with 1 if there is anything."""
    found = list(findings())
    print("\n".join(found) or "Spelled as in the dictionary.")
    sys.exit(bool(found))


def findings() -> Iterator[str]:
    """Yield a line for each unknown word: file, line, word, and the nearest known one."""
    for path in plain_language.pages():
        for number, line in enumerate(plain_language.prose(path).splitlines(), start=1):
            yield from (f"{path.relative_to(ROOT)}:{number}: {said}" for said in faults(line))
    for path in sorted((ROOT / "pnne_nb").rglob("*.py")):
        for number, text in sentences(ast.parse(path.read_text(encoding="utf-8"))):
            yield from (f"{path.relative_to(ROOT)}:{number}: {said}" for said in faults(text))
    for path in sorted((ROOT / "js" / "src").rglob("*.ts*")):
        if path.name != "protocol.ts":  # made of Python
            for number, text in labels(path.read_text(encoding="utf-8")):
                yield from (f"{path.relative_to(ROOT)}:{number}: {said}" for said in faults(text))


def faults(text: str) -> Iterator[str]:
    """Yield the unknown words of a text, and those with an American ending."""
    dictionary, own = words()
    for found in dict.fromkeys(_WORD.findall(_CODE.sub(" ", text))):
        word = re.sub(r"'s?$", "", found).lower()
        if word in own:
            continue
        british = [re.sub(american, ours, found) for american, ours in _BRITISH]
        twin = next((each for each in british if each.lower() in own), british[0] if _AMERICAN.search(word) else "")
        if twin and twin != found:
            yield f"{found!r}: write {twin!r}, or take the word into {KNOWN.name}"
        elif not dictionary.known([word]):
            near = dictionary.correction(word)
            yield f"{found!r}: {f'write {near!r}' if near else 'write another word'}, or take it into {KNOWN.name}"


@functools.cache
def words() -> tuple[SpellChecker, frozenset[str]]:
    """Return the dictionary, and the words of the list, in small letters."""
    lines = [line for line in KNOWN.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return SpellChecker(distance=1), frozenset(" ".join(lines).lower().split())


def sentences(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring and sentence of a module; what an f-string fills in is left out."""
    inside = {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(module):
        parts = node.values if isinstance(node, ast.JoinedStr) else [] if id(node) in inside else [node]
        said = [part.value if isinstance(part, ast.Constant) else "{}" for part in parts]
        text = "".join(part for part in said if isinstance(part, str))
        if _SENTENCE.search(text):
            yield getattr(node, "lineno", 1), text


def labels(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of what TypeScript shows a person; what a template fills in is left out."""
    plain = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), source)
    for found in _SAID.finditer(plain):
        text = _FILLED.sub("{}", next(filter(None, found.groups()), ""))
        if re.search(r"[A-Za-z] [A-Za-z]", text) and not re.search(r"\bpnne-|[{};]\s*\n|^\s*<", text):
            yield plain.count("\n", 0, found.start()) + 1, text


if __name__ == "__main__":
    main()
