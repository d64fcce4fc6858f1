"""The register, the files that a figure is written to, and the errors of the border."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fgrpo_theory.foundation.files import write_table
from figures import catalogue, style
from figures.inputs import SOURCES, MissingResult, Results, digest, published, where
from figures.registry import FORMATS, REGISTRY, draw, entry, to_bytes

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
ROOT = Path(__file__).parents[2]


def test_every_registered_figure_has_its_place_in_the_report() -> None:
    assert set(catalogue.ORDER) == set(REGISTRY)
    assert len(catalogue.ORDER) == len(set(catalogue.ORDER))


@pytest.mark.parametrize("name", catalogue.ORDER)
def test_a_figure_is_written_in_three_formats_with_its_numbers(name: str, made_up: Path, tmp_path: Path) -> None:
    results = Results(made_up)
    paths = draw(name, results, tmp_path)
    assert [path.name for path in paths] == [f"{name}.{form}" for form in (*FORMATS, "json")]
    for path, form in zip(paths, FORMATS, strict=False):
        content = path.read_bytes()
        assert content.startswith(MAGIC[form])
        assert len(content) > 10_000
    record = json.loads(paths[-1].read_text())
    assert record["numbers"] == json.loads(json.dumps(entry(name).numbers(results)))
    assert record["source"]
    assert len(record["config_hash"]) == 12
    assert set(record["inputs"]) == {SOURCES[need].path for need in entry(name).needs} | {
        f"published/{table}.csv" for table in entry(name).published
    }
    # No partial file stays behind.
    assert set(tmp_path.iterdir()) == set(paths)


def test_fonts_are_embedded_as_outlines_or_truetype(made_up: Path) -> None:
    figure, _ = entry("crosscheck").make(Results(made_up))
    pdf, svg = to_bytes(figure, "pdf"), to_bytes(figure, "svg")
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"<text" not in svg


def test_the_same_inputs_give_the_same_bytes_in_another_process(made_up: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from figures import catalogue, registry; from figures.inputs import Results;"
        "registry.draw('surrogates', Results(sys.argv[1]), sys.argv[2])"
    )
    for folder, seed in (("a", "1"), ("b", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code, str(made_up), str(tmp_path / folder)]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
    draw("surrogates", Results(made_up), tmp_path / "c")
    for form in FORMATS:
        contents = {(tmp_path / folder / f"surrogates.{form}").read_bytes() for folder in "abc"}
        assert len(contents) == 1, form


def test_no_two_series_are_told_apart_by_colour_alone() -> None:
    gammas = [style.gamma_look(gamma) for gamma in (0.0, 0.5, 1.0, 2.0)]
    for looks in (style.SERIES, gammas):
        for one, other in itertools.combinations(looks, 2):
            assert one.linestyle != other.linestyle
            assert one.marker != other.marker
            assert one.color != other.color


def test_the_style_leaves_matplotlib_as_it_was() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style.applied():
        assert mpl.rcParams["svg.hashsalt"] == "fgrpo"
    assert dict(mpl.rcParams) == before


def test_bad_names_are_refused_in_one_line(made_up: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^figure must be one of crosscheck, expected_drift, .*got figure='figure9'$"):
        draw("figure9", Results(made_up), tmp_path)
    with pytest.raises(ValueError, match=r"^format must be one of png, svg, pdf, got format='gif'$"):
        draw("figure4", Results(made_up), tmp_path, ["png", "gif"])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_refused(made_up: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"out must be a folder that can be written, got out=.*is no folder"):
        draw("figure4", Results(made_up), tmp_path / "file")
    with pytest.raises(ValueError, match="fgrpo"):
        draw("figure4", Results(made_up), "/proc/fgrpo")


def test_a_missing_table_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(MissingResult, match=r"figure2 needs .*parquet; `fgrpo sims sweep --preset paper` makes it$"):
        draw("figure2", Results(tmp_path), tmp_path / "out")


def test_a_table_without_a_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sims/gammas").mkdir(parents=True)
    write_table(tmp_path / SOURCES["gammas"].path, {"group_size": np.array([2]), "gamma": np.array([0.0])})
    with pytest.raises(ValueError, match="it lacks seed, step, Q_pos, M_ret"):
        draw("gammas", Results(tmp_path), tmp_path / "out")


def test_rows_that_are_not_there_are_an_error() -> None:
    with pytest.raises(ValueError, match="rows with method=PPO"):
        where(published("table2_group_size"), method="PPO")


def test_published_tables_agree_where_they_overlap() -> None:
    full, short = published("tables12_14_pass_at_k"), published("table1_models_methods")
    compared = 0
    columns = [short[name] for name in ("model", "method", "benchmark", "pass_at_1", "pass_at_256")]
    for model, method, benchmark, one, many in zip(*columns, strict=True):
        if "average" in benchmark:
            continue
        for k, value in ((1, one), (256, many)):
            (other,) = where(full, model=model, method=method, benchmark=benchmark, k=k)["pass_at_k"]
            assert other == value, (model, method, benchmark, k)
            compared += 1
    assert compared > 200
    small = published("table2_group_size")
    (average,) = where(short, model="Qwen2.5-7B", method="GRPO", benchmark="Math average")["pass_at_256"]
    assert where(small, method="GRPO", group_size=8)["math_pass_at_256"] == average


def test_the_digest_is_that_of_the_file(made_up: Path) -> None:
    import hashlib

    path = made_up / SOURCES["paper"].path
    assert Results(made_up).digest("paper") == hashlib.sha256(path.read_bytes()).hexdigest()[:12] == digest(path)
