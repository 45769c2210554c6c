"""Build the site: ``python scripts/build_site.py``, or ``make docs``. It is written to ``build/site``, for any static host.

The pages are those of ``docs/``, the README, the notebooks with their stored outputs, and the reference, which
`reference_pages` makes of docstrings. They lie in ``build/site-source`` as in the project, so that a link that works in a
checkout works on the site. Each page has a twin in Markdown beside it, and ``llms.txt`` lists them. Nothing is fetched:
a page that would load something from another host fails the build, as any warning does.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import nbformat

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import reference_pages

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "build" / "site-source"
SITE: Final = ROOT / "build" / "site"

CHAPTERS: Final = {
    "Start": ["docs/tour.md"],
    "Lessons": ["notebooks/lessons/*.ipynb"],
    "Notebooks": ["notebooks/*.ipynb"],
    "How to": ["docs/howto/*.md", "docs/training.md", "docs/faults.md", "docs/ask.md", "docs/passes.md", "docs/export.md",
               "docs/serving.md", "docs/faster.md", "docs/hosts.md"],
    "Coming from": ["docs/coming-from/*.md"],
    "Reference": ["docs/reference/*.md", "docs/nodes.md", "docs/gestures.md"],
    "Background": ["docs/explanation/*.md", "docs/limits.md", "docs/locks.md", "docs/comparison.md", "CONTRIBUTING.md",
                   "CHANGELOG.md", "SECURITY.md"],
}  # fmt: skip
"""The chapters of the site, with the pages of each."""

FOLDERS: Final = {
    "howto": "how-to",
    "coming-from": "coming-from",
    "reference": "reference",
    "explanation": "background",
}
"""The chapter that a link to a folder of ``docs/`` means."""


def main() -> None:
    """Lay out the sources, have Sphinx build them, and add the twins."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    twins = lay_out()
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2", "-c", str(ROOT / "docs")]
    if done := subprocess.run([*command, str(SOURCE), str(SITE)], check=False).returncode:
        sys.exit(done)
    write_twins(twins)
    for page in SITE.rglob("*.html"):
        page.write_text(made_accessible(page.read_text(encoding="utf-8")), encoding="utf-8")
    if fetched := [each for page in SITE.rglob("*.html") for each in loaded_from_elsewhere(page)]:
        sys.exit("These pages load something from another host:\n" + "\n".join(fetched))
    print(f"{len(list(SITE.rglob('*.html')))} pages: {SITE.relative_to(ROOT)}/index.html")


def lay_out() -> dict[str, str]:
    """Write the sources, and return the twin of each page by its path."""
    docs = SOURCE / "docs"
    shutil.copytree(
        ROOT / "docs", docs, ignore=shutil.ignore_patterns("_static", "conf.py", "__pycache__", ".ipynb_checkpoints")
    )
    for name, text in reference_pages.pages().items():
        (docs / "reference" / name).write_text(text, encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"):
        shutil.copy(ROOT / name, SOURCE / name)

    twins = {f"docs/reference/{name}": text for name, text in reference_pages.twins().items()}
    for path in sorted(SOURCE.rglob("*.md")):
        twins.setdefault(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts:
            name = path.relative_to(ROOT)
            notebook = read(path)
            twins[name.with_suffix(".md").as_posix()] = as_markdown(notebook)
            place_notebook(notebook, name)
    split_chapters(docs / "nodes.md")

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    twins["index.md"] = readme
    shown = readme.replace("[MIT](LICENSE)", "MIT")
    shown = re.sub(
        r"\(docs/(howto|coming-from|reference|explanation)/\)", lambda link: f"({FOLDERS[link[1]]}.md)", shown
    )
    (SOURCE / "index.md").write_text(shown + "\n" + tree(chapters()), encoding="utf-8")
    return twins


def chapters() -> list[str]:
    """Write a page for each chapter, which names its pages, and return the chapters."""
    made = []
    for title, patterns in CHAPTERS.items():
        if found := [path for pattern in patterns for path in sorted(SOURCE.glob(pattern))]:
            name = title.lower().replace(" ", "-")
            pages = [path.relative_to(SOURCE).with_suffix("").as_posix() for path in found]
            text = f"# {title}\n\n" + tree(pages, hidden=False)
            (SOURCE / f"{name}.md").write_text(text, encoding="utf-8")
            made.append(name)
    return made


def tree(pages: list[str], hidden: bool = True) -> str:
    """Return the directive that places pages below the one that it stands on."""
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return f"```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n"


def read(path: Path) -> nbformat.NotebookNode:
    """Return a notebook without the cells that check it, which have the tag ``check`` and say nothing to a reader."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells = [cell for cell in notebook.cells if "check" not in cell.metadata.get("tags", ())]
    return notebook


def place_notebook(notebook: nbformat.NotebookNode, name: Path) -> None:
    """Write a notebook for Sphinx, with a line below its title that says how to open it live."""
    line = f"Open it live in a checkout: `jupyter lab {name.as_posix()}`"
    first = notebook.cells[0]
    title, _, rest = first.source.partition("\n")
    first.source = f"{title}\n\n{line}\n{rest}"
    target = SOURCE / name
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


def split_chapters(page: Path) -> None:
    """Make a page of each chapter of the list of nodes, which is too long for one."""
    head, *chapters = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    folder = page.with_suffix("")
    folder.mkdir()
    names = []
    for chapter in chapters:
        title, _, text = chapter.partition("\n")
        name = title.lower().replace(" ", "-")
        text = text.replace("\n### ", "\n## ")
        (folder / f"{name}.md").write_text(f"# {title}\n{text}", encoding="utf-8")
        head = head.replace(f"](#{name})", f"](nodes/{name}.md)")
        names.append(f"nodes/{name}")
    page.write_text(f"{head}\n{tree(names)}", encoding="utf-8")


def as_markdown(notebook: nbformat.NotebookNode) -> str:
    """Return a notebook as text: its cells, and those of its outputs that are text."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            if text and "<figure" not in text:
                parts.append(f"```\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def write_twins(twins: dict[str, str]) -> None:
    """Write the Markdown beside the pages, and the list of them."""
    lines = [
        "# pnne_nb",
        "",
        "> Draw a neural network in a notebook cell, train it, and watch it learn: PyTorch in Jupyter.",
        "",
    ]
    for name, text in sorted(twins.items()):
        target = SITE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        lines.append(f"- [{title.group(1) if title else name}]({name})")
    (SITE / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def made_accessible(html: str) -> str:
    """Return a page with what the theme owes to a screen reader: names of buttons, and lists only where there are any."""
    html = html.replace(' title="Search" aria-label="Search"', ' title="Search"')
    html = html.replace(
        '<summary><span class="toctree-toggle"', '<summary aria-label="Pages below"><span class="toctree-toggle"'
    )
    # A long signature is one line for each argument, not a list of definitions without terms.
    lines = re.compile(r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>")
    return lines.sub(lambda found: re.sub(r"<(/?)dd>", r"<\1div>", f'<div class="sig-lines">\n{found[1]}</div>'), html)


class _Loads(HTMLParser):
    """Collects what a page loads: scripts, styles, pictures and frames, no links that a reader follows."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in {"canonical", "author", "license"}:
            return
        if tag in {"script", "img", "iframe", "link", "source", "video"}:
            self.addresses += [address for key in ("src", "href") if (address := given.get(key))]


def loaded_from_elsewhere(page: Path) -> list[str]:
    """Return what a page would load from another host, with the page's name."""
    reader = _Loads()
    reader.feed(page.read_text(encoding="utf-8"))
    return [f"{page.relative_to(SITE)}: {each[:100]}" for each in reader.addresses if re.match(r"(https?:)?//", each)]


if __name__ == "__main__":
    main()
