"""The report as a document: self-contained, escaped, complete, and honest about what is missing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import fgrpo
from figures import catalogue
from figures.inputs import SOURCES, Results
from figures.report import write_report

VOID = {"meta", "link", "img", "br"}


class Page(HTMLParser):
    """Collects what the tests ask of a page, and checks that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html(report_path: Path) -> str:
    return report_path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_nothing_runs_and_nothing_is_fetched(page: Page) -> None:
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "iframe", "object", "embed", "form", "base", "audio", "video"}
    for _, attributes in page.elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("src", "href", "srcset", "action", "data"):
            assert (attributes.get(name) or "#").startswith(("#", "data:"))


def test_the_policy_allows_data_images_and_the_one_style_block(page: Page) -> None:
    (policy,) = [
        item["content"] or "" for item in page.all("meta") if item.get("http-equiv") == "Content-Security-Policy"
    ]
    (css,) = [text for tag, text in page.texts if tag == "style"]
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "url(" not in css
    assert "@import" not in css


def test_every_link_in_the_page_has_its_target(page: Page) -> None:
    targets = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(targets) == len(set(targets))
    links = [item["href"] or "" for item in page.all("a")]
    assert len(links) > 20
    assert {link.removeprefix("#") for link in links} <= set(targets)
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", "about") in targets


def test_headings_go_down_one_level_at_a_time(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_figure_is_embedded_with_a_description_and_where_it_comes_from(page: Page, html: str) -> None:
    images = page.all("img")
    assert len(images) == len(catalogue.ORDER)
    for image in images:
        assert len(image["alt"] or "") > 40
        assert base64.b64decode((image["src"] or "").removeprefix("data:image/png;base64,"))[:4] == b"\x89PNG"
    assert len(re.findall(r"configuration [0-9a-f]{12}, commit \w+", html)) == len(catalogue.ORDER)


def test_text_from_tables_is_escaped(html: str) -> None:
    assert "sum &lt;over&gt; outcomes" in html
    assert "<over>" not in html


def test_language_viewport_and_title(page: Page) -> None:
    assert page.all("html")[0]["lang"] == "en"
    assert any(item.get("name") == "viewport" for item in page.all("meta"))
    assert len(page.all("title")) == 1


def test_numbers_of_the_simulation_are_those_of_the_table(html: str) -> None:
    # The made-up table: M_ret 0.04 at N = 2048 and gamma 0, 0.0015 either way over the seeds.
    assert "0.040 (0.038 to 0.041)" in html or "0.040 (0.039 to 0.042)" in html
    assert "N = 256 to 8192" in html


def test_without_results_the_report_says_what_to_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fgrpo.main(["figures", "report", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"the report is {tmp_path / 'report.html'}\n"
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.all("img")) == len(catalogue.THEORY)
    for command in (
        "sims sweep --preset paper",
        "sims sweep --preset surrogates",
        "sims crosscheck",
        "theory prove --out results/theory/proofs.json",
    ):
        assert f"<code>fgrpo {command}</code>" in text
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert {(item["href"] or "").removeprefix("#") for item in page.all("a")} <= targets
    assert "reproduced</strong>" in text


def test_provenance_beside_a_table_is_shown(html: str, made_up: Path) -> None:
    for value in ("0123456789ab", "[0, 1, 2, 3]", "feedfacefeed", "2026-01-02T03:04:05+00:00"):
        assert f"<td>{value}</td>" in html
    for name in SOURCES:
        assert Results(made_up).digest(name) in html


def test_the_report_is_written_whole_and_only_to_a_file(html: str, report_path: Path, made_up: Path) -> None:
    assert html.endswith("</html>\n")
    assert list(report_path.parent.iterdir()) == [report_path]
    with pytest.raises(ValueError, match=r"out must be a file, got .* which is a folder"):
        write_report(made_up, made_up)
