"""Runs the notebooks: their code cells in this interpreter, or with --kernel in a kernel of Jupyter.

Usage: notebooks.py [--kernel] [NAME…]. Without a kernel, a notebook whose packages are not installed is named and left
out. With --kernel, nbclient and ipykernel are needed, and every notebook has to run.
"""

import ast
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import time

NOTEBOOKS = pathlib.Path(__file__).resolve().parents[1] / "notebooks"
# Packages beside Python's own and ours that a notebook may import.
OPTIONAL = ("polars",)


def cells(path):
    """Source of each code cell."""
    book = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


def missing(path):
    """Optional packages that a notebook imports and that are not installed."""
    text = "\n".join(cells(path))
    needed = [name for name in OPTIONAL if f"import {name}" in text]
    return [name for name in needed if importlib.util.find_spec(name) is None]


def shown(value):
    """Text of a cell's value as a notebook shows it: HTML, SVG or its repr."""
    for method in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, method):
            return getattr(value, method)()
    return repr(value)


def run(path):
    """Runs the cells of a notebook in the order of the page; the value of each cell's last line is shown."""
    names = {"__name__": "__main__"}
    for number, source in enumerate(cells(path), 1):
        where = f"{path.name}, code cell {number}"
        body = ast.parse(source, where)
        last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None:
                assert shown(value), where


def run_in_kernel(path):
    """Runs a notebook as Jupyter does; an error in a cell is an error here."""
    import nbclient
    import nbformat

    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()


def main():
    """Runs the named notebooks, or all of them."""
    arguments = sys.argv[1:]
    kernel = "--kernel" in arguments
    names = [name for name in arguments if name != "--kernel"]
    paths = [NOTEBOOKS / f"{name}.ipynb" for name in names] or sorted(NOTEBOOKS.glob("*.ipynb"))
    assert paths, NOTEBOOKS
    for path in paths:
        lacking = [] if kernel else missing(path)
        if lacking:
            print(f"{path.name}: not run, because {', '.join(lacking)} is not installed; `make python` runs it")
            continue
        before = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            os.chdir(directory)
            # Directories that a notebook makes go with this one.
            os.environ["TMPDIR"] = tempfile.tempdir = directory
            (run_in_kernel if kernel else run)(path)
            os.chdir("/")
            tempfile.tempdir = None
        print(f"{path.name}: ran in {time.monotonic() - before:.1f} s")


if __name__ == "__main__":
    main()
