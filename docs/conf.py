"""Settings of Sphinx for the documentation: `sphinx-build -W docs docs/_build/html`."""

import logging
import re
import urllib.error
import urllib.request
from pathlib import Path

import gwfast

HERE = Path(__file__).parent

# Sphinx shows what scripts of the gallery log, too.
logging.getLogger("gwfast").setLevel(logging.WARNING)

project = "gwfast"
author = copyright = "The gwfast authors"
version = release = gwfast.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/*.py", "gallery/*.ipynb", "sg_execution_times*"]
templates_path = ["_templates"]
default_role = "py:obj"
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"gwfast {version}"
html_static_path = ["_static"]
html_css_files = ["gwfast.css"]
html_copy_source = False

autosummary_generate = True
autodoc_typehints = "none"
autodoc_default_options = {"inherited-members": "str,tuple,BaseEstimator,TransformerMixin"}
numpydoc_show_class_members = False

# The scripts run when the site is built, which takes some minutes; with -D plot_gallery=0 they are
# shown only.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    # Its workers are processes, which import the script that started them.
    "filename_pattern": r"/(?!on_a_cluster)\w+\.py$",
    "reset_argv": lambda conf, variables: ["--output", str(HERE / "_build" / "pictures")],
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": float("inf"),
}

# A function among the settings of the gallery cannot be kept for the next build.
suppress_warnings = ["config.cache"]

INVENTORIES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
}


def reachable(inventories):
    """Return the inventories, or none if one cannot be had: without a network, links to other
    projects are left out without a warning."""
    try:
        for address in inventories.values():
            urllib.request.urlopen(address + "objects.inv", timeout=3).close()
    except (OSError, urllib.error.URLError):
        return {}
    return {name: (address, None) for name, address in inventories.items()}


intersphinx_mapping = reachable(INVENTORIES)

# Files of the repository that are pages of the documentation too.
PAGES = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "GLOSSARY.md": "glossary",
    "benchmarks/README.md": "benchmark-programs",
    "examples/README.md": "gallery/index",
    "gwfast/pot/DIFFERENCES.md": "differences",
}


def prepare(app, docname, source):
    """Put files of the repository in their places, and turn links to files into links to their
    pages; the links lead somewhere in the repository as well.
    """
    text = source[0]
    for file, page in PAGES.items():
        if docname == page and not page.startswith("gallery"):
            text = (HERE.parent / file).read_text("utf-8")
            text = re.sub(r"^```python$", "```{code-block} python", text, flags=re.M)
    for file, page in PAGES.items():
        text = re.sub(rf"\]\((?:\.\./)?{re.escape(file)}\)", f"](/{page})", text)
    if docname in PAGES.values():
        text = re.sub(r"\]\(docs/([\w-]+)\.md\)", r"](/\1)", text)
    source[0] = re.sub(r"\]\(\.\./examples/(\w+)\.py\)", r"](/gallery/\1)", text)


def show_output(app, docname, source):
    """Show what a script says that it prints, its plain blocks, as text."""
    if docname.startswith("gallery/") and docname != "gallery/index":
        blocks = r"(?<=[\w)])::\n\n(?=    )"
        source[0] = re.sub(blocks, ":\n\n.. code-block:: text\n\n", source[0])


def skip(app, what, name, obj, would_skip, options):
    """Leave out the fields of named tuples, which the section Attributes has, and what
    estimators inherit from scikit-learn, whose documentation has it."""
    module = getattr(obj, "__module__", None) or ""
    inherited = module.startswith("sklearn") or re.fullmatch(r"set_\w+_request", name)
    return True if type(obj).__name__ == "_tuplegetter" or inherited else None


def setup(app):
    app.connect("source-read", prepare)
    app.connect("source-read", show_output)
    app.connect("autodoc-skip-member", skip)
