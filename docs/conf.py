"""Settings of the documentation site, which `make docs` builds into build/docs."""

import logging
import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
sys.path[:0] = [str(PROJECT), str(DOCS)]

_metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
project = _metadata["name"]
author = "the authors of transduce"
version = release = _metadata["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "extensions.docstrings",
    "extensions.listings",
    "extensions.outcomes",
]
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",  # written by each build
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "write_computation_times": False,
}
exclude_patterns = ["gallery", "examples/*.ipynb", "build", "extensions", "templates", "**.ipynb_checkpoints"]
root_doc = "index"
language = "en"
default_role = "literal"
highlight_language = "none"

myst_enable_extensions = ["colon_fence", "html_image"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
autosummary_ignore_module_all = True
napoleon_use_ivar = True
napoleon_attr_annotations = False
strip_signature_backslash = True
templates_path = ["templates"]
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "transduce"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "collapse_navigation": True,
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 5,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "logo": {"text": "transduce"},
}
html_static_path = ["static", "../runs/report/templates/results.css"]
html_css_files = ["site.css", "results.css"]
html_search_scorer = str(DOCS / "scorer.js")
html_sidebars = {page: [] for page in ("index", "architecture", "security", "performance")}
html_show_sourcelink = False
html_copy_source = False
copyright = "MIT licence"

logging.getLogger("matplotlib").setLevel(logging.ERROR)
