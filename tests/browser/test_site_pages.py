"""Pages of the site for everybody: axe-core finds nothing serious, and pictures of widgets take the theme of the page."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts import build_site, reference_pages
from tests.axe import violations

pytest.importorskip("sphinx", reason="make docs installs it")

PICTURES = """() => [...document.querySelectorAll('.cell_output img[src^="data:image/svg"]')].map(
    image => getComputedStyle(image).colorScheme)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of each sort, built as those of the site are: a text, a notebook, signatures, and a page with pages below."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_site, "SOURCE", source)
        name = Path("notebooks", "01_quickstart.ipynb")
        build_site.place_notebook(build_site.read(build_site.ROOT / name), Path("notebook.ipynb"))
    shutil.copy(build_site.ROOT / "docs" / "howto" / "processes.md", source / "text.md")
    (source / "signatures.md").write_text(reference_pages.pages()["inspect.md"])
    (source / "chapter.md").write_text("# Chapter\n\n" + build_site.tree(["text", "signatures"], hidden=False))
    (source / "index.md").write_text("# Site\n\n" + build_site.tree(["chapter", "notebook"]))
    command = [sys.executable, "-m", "sphinx", "-q", "-c", str(build_site.ROOT / "docs"), str(source), str(built)]
    subprocess.run(command, check=True, capture_output=True)
    for page in built.glob("*.html"):
        page.write_text(build_site.made_accessible(page.read_text(encoding="utf-8")), encoding="utf-8")
    return built


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_reader_can_read_the_site(site: Path, browser: Browser, theme: str) -> None:
    page = browser.new_page(color_scheme="dark" if theme == "light" else "light")  # the page decides, not the system
    page.add_init_script(f"localStorage.mode = localStorage.theme = '{theme}'")
    found = {}
    for name in ("index", "chapter", "text", "notebook", "signatures"):
        page.goto((site / f"{name}.html").as_uri())
        assert page.locator("html").get_attribute("data-theme") == theme
        found[name] = violations(page, "body")
        shown = page.evaluate(PICTURES)
        assert set(shown) <= {theme}
        assert bool(shown) == (name == "notebook")
    page.close()
    assert not any(found.values()), found
