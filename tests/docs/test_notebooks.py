"""The notebooks run from top to bottom, as they are committed: without outputs, with their own assertions."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def test_both_are_here() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["diagnose_a_run", "theory_tour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert sum("assert " in "".join(cell["source"]) for cell in code) >= 2, "a run must be able to fail"
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


# The kernel's sockets are closed by the collector, after the test; pyzmq warns of it.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # The kernel writes what it remembers and its connection file there, not into the user's home.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert (
        sum("image/png" in output.get("data", {}) for output in outputs)
        == {"theory_tour": 3, "diagnose_a_run": 1}[path.stem]
    )
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
