"""The site: its links lead somewhere, its reference has every name, and its builder sees what a page would fetch."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import tomllib
from pathlib import Path

import pytest

import pnne_nb as pn
from pnne_nb.catalog import specs
from pnne_nb.diagnosis.finding import KINDS
from pnne_nb.errors import meanings
from pnne_nb.export.formats import FORMATS
from pnne_nb.export.formats.base import ExportFormat
from pnne_nb.graph.schema.structural import STRUCTURAL
from scripts import build_site, plain_language, reference_pages, spelling
from tests.pages import ROOT

PAGES = [*(path for path in plain_language.pages() if path.suffix == ".md"), ROOT / "docs" / "nodes.md"]
NOTEBOOKS = [path for path in plain_language.pages() if path.suffix == ".ipynb"]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(path: Path) -> str:
    """The text of a page or of a notebook's cells, without its code."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """What a link into a page may name: its headings as GitHub and the site write them."""
    titles = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [*PAGES, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(path: Path) -> None:
    for file, anchor in LINK.findall(prose(path)):
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{file} does not exist"
        assert target.is_relative_to(ROOT), f"{file} is outside of the project"
        assert not anchor or anchor in anchors(target), f"{file} has no heading for #{anchor}"


def test_every_public_name_has_a_page_of_the_reference() -> None:
    pages = reference_pages.pages()
    for name in pn.__all__:
        assert f"## pn.{name}\n" in pages[f"{reference_pages.room_of(name)}.md"], name


def test_a_name_without_a_room_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(reference_pages.ROOMS, "inspect")
    with pytest.raises(LookupError, match=r"No page of the reference has inspector/, where pn\.summary lives"):
        reference_pages.room_of("summary")


def test_a_page_has_signatures_members_and_examples() -> None:
    train = reference_pages.twins()["train.md"]
    assert "TrainingEngine(model: 'nn.Module | NodeGraph'" in train
    assert "### TrainingEngine.rewind\n" in train
    assert "\nTrainingDashboard(engine" in reference_pages.twins()["widgets.md"]
    assert ".. autoclass:: pnne_nb.GraphEditor(graph=" in reference_pages.pages()["widgets.md"]
    assert "```python\ngraph = pn.NodeGraph" in reference_pages.twins()["draw.md"]
    assert ".. autoclass:: pnne_nb.TrainingEngine\n   :members: " in reference_pages.pages()["train.md"]


def test_every_code_of_a_message_is_explained() -> None:
    assert set(meanings()) == set(reference_pages.messages()), "pnne_nb/codes.toml says what a code means"
    assert reference_pages.messages()["no-output"][0].hint
    page = reference_pages.pages()["messages.md"]
    assert all(f"## {code}\n\n{said['cause']}\n" in page for code, said in meanings().items())
    page = reference_pages.pages()["findings.md"]
    assert all(f"## {name}\n\n{kind.cause}\n" in page for name, kind in KINDS.items())
    assert not [kind for kind in KINDS.values() if not (kind.cause and kind.evidence and kind.repair)]


def test_every_option_of_launch_is_described() -> None:
    rows = [line.split(" | ") for line in reference_pages.pages()["launch.md"].splitlines() if line.startswith("| `")]
    assert {"`strategy`", "`timeout`", "`nproc`"} <= {row[0].strip("| ") for row in rows}
    assert all(len(row[2].rstrip("| ")) > 10 for row in rows), "a docstring does not describe an option"


def test_every_argument_of_the_engine_is_described() -> None:
    for name in inspect.signature(pn.TrainingEngine).parameters:
        assert re.search(rf"^    {name}: ", inspect.getdoc(pn.TrainingEngine) or "", re.MULTILINE), name


def test_what_a_page_would_fetch_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_site, "SITE", tmp_path)
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="https://example.org"></a><link rel="canonical" href="https://example.org"><img src="a.png">'
        '<script src="https://cdn.example.org/a.js"></script><img src="//example.org/b.png">'
    )
    assert build_site.loaded_from_elsewhere(page) == [
        "page.html: https://cdn.example.org/a.js",
        "page.html: //example.org/b.png",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_the_twin_of_a_notebook_is_text(path: Path) -> None:
    notebook = build_site.read(path)
    twin = build_site.as_markdown(notebook)
    assert twin.startswith("# ")
    assert "base64," not in twin
    assert all(cell.source in twin for cell in notebook.cells)


def test_the_list_of_nodes_is_cut_into_its_chapters(tmp_path: Path) -> None:
    page = tmp_path / "nodes.md"
    page.write_text("# Node types\n\n- [Two words](#two-words) (1)\n\n## Two words\n\n### Node\n\nText.\n")
    build_site.split_chapters(page)
    assert "](nodes/two-words.md) (1)" in page.read_text()
    assert (tmp_path / "nodes" / "two-words.md").read_text() == "# Two words\n\n## Node\n\nText.\n"


@functools.cache
def shown() -> str:
    """Everything that shows how something is done: pages by task, the tour, and the cells of notebooks."""
    pages = [path.read_text(encoding="utf-8") for path in PAGES if path.parent != ROOT and path.name != "nodes.md"]
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return "\n".join([*pages, *("".join(cell["source"]) for cell in cells)])


def test_every_public_name_is_shown_in_use() -> None:
    assert [name for name in pn.__all__ if not re.search(rf"\bpn\.{name}\b", shown())] == []


def test_every_argument_of_the_engine_is_shown_in_use() -> None:
    given = [name for name in inspect.signature(pn.TrainingEngine).parameters if name not in {"model", "train_data"}]
    assert [name for name in given if not re.search(rf"\b{name}=", shown())] == []


def test_every_code_of_a_message_and_each_kind_of_finding_stands_on_a_page_by_task() -> None:
    assert [code for code in (*meanings(), *KINDS) if f"`{code}`" not in shown()] == []


def test_every_extra_is_explained() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"`([a-z]+)`", (ROOT / "docs" / "howto" / "install.md").read_text("utf-8"))) >= set(extras)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_every_format_of_an_export_is_on_its_page(format: ExportFormat) -> None:
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    assert f'"{format.name}"' in page
    assert any(f"`{suffix}`" in page for suffix in format.suffixes)


def test_every_category_of_nodes_has_a_chapter_and_a_node_that_is_shown_in_use() -> None:
    page = (ROOT / "docs" / "nodes.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\w+", shown()))
    by_category: dict[str, set[str]] = {}
    for spec in (*STRUCTURAL, *specs()):  # without what other tests have registered or imported
        by_category.setdefault(spec.category, set()).add(spec.type)
    assert [name for name in by_category if f"\n## {name}\n" not in page] == []
    assert [name for name, types in by_category.items() if not types & named] == []


def test_pages_are_in_plain_words() -> None:
    assert list(plain_language.findings()) == []
    said = plain_language.faults("We utilize it, and the Color `color` seperates.")
    assert list(said) == ["'utilize': write use", "'Color': write colour", "'color': write colour"]


def test_texts_are_spelled_as_in_the_dictionary_in_its_british_forms() -> None:
    assert list(spelling.findings()) == []
    said = list(
        spelling.faults("We seperate the `colr` of a `tensor`, color it, and re-initialize pn.compile for numpy.")
    )
    assert said == [
        "'seperate': write 'separate', or take it into known_words.txt",
        "'color': write 'colour', or take the word into known_words.txt",
        "'initialize': write 'initialise', or take the word into known_words.txt",
    ]
    shown = 'const a = "Undo teh edit"; /* teh */ // teh\n<p title={`${n} wrnog of ${m}`}>Drag ndoe</p> <b />'
    told = [word for _, text in spelling.labels(shown) for word in spelling.faults(text)]
    assert [word.split(":")[0] for word in told] == ["'teh'", "'wrnog'", "'ndoe'"]
    module = ast.parse('def f():\n    """Return teh sum."""\n    raise ValueError(f"{f} is wrnog here. Write it.")')
    found = [(line, list(spelling.faults(text))) for line, text in spelling.sentences(module)]
    assert [(line, len(faults)) for line, faults in found] == [(2, 1), (3, 1)]


def test_a_screen_reader_gets_names_and_no_list_without_terms() -> None:
    made = build_site.made_accessible(
        '<dl>\n<dd>a,</dd>\n<dd>b</dd>\n</dl><dl><dt>x</dt><dd>y</dd></dl><b title="Search" aria-label="Search">'
    )
    assert (
        made
        == '<div class="sig-lines">\n<div>a,</div>\n<div>b</div>\n</div><dl><dt>x</dt><dd>y</dd></dl><b title="Search">'
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_reader_of_a_notebook_meets_its_checks(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    checks = [cell for cell in cells if "check" in cell["metadata"].get("tags", ())]
    assert all(cell["metadata"]["jupyter"]["source_hidden"] and not cell["outputs"] for cell in checks)
    if not path.name.startswith("09"):
        assert not any(line.startswith("assert") for cell in cells if cell not in checks for line in cell["source"])
