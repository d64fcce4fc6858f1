"""The site of docs/: `make docs` builds it into build/docs, and every warning is an error.

Sphinx with MyST (the pages are Markdown that reads well without it) and the Furo theme. Formulas become MathML while the site is
built, so that no page needs a script or a font from elsewhere; search works without a server. What is left out on purpose:
an API reference, because docstrings are read with `help()` and in the source.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_sphinx"))

project = "fgrpo"
author = "The fgrpo maintainers"
language = "en"
root_doc = "index"
extensions = ["myst_parser", "formulas", "pages"]
exclude_patterns = ["_site", "_sphinx", "**/.ipynb_checkpoints"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
nitpicky = True

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "fgrpo"
html_math_renderer = "mathml"
html_static_path = ["_sphinx/static"]
html_css_files = ["site.css"]
html_extra_path = ["explore.html"]
html_copy_source = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
