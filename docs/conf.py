"""How Sphinx builds the site. `scripts/build_site.py` lays its sources out, and calls it; nothing is fetched."""

from __future__ import annotations

from pnne_nb.process import __version__

project = "pnne_nb"
author = "pnne_nb contributors"
project_copyright = author
release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# Notebooks are shown from the outputs that they were stored with, which `make test` compares with fresh ones.
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # would be fetched; each widget has left a picture
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_title = "pnne_nb"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
