"""The site of docs/: it builds without a warning, every link in it leads somewhere, and every equation of README's map is there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import headless
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = [
    path
    for ending in ("md", "ipynb")
    for path in DOCS.rglob(f"*.{ending}")
    if not {"_site", "_sphinx"} & set(path.parts)
]
MARKER = re.compile(r"<!-- map: (.+?) -->")


class Page(HTMLParser):
    """What a page refers to, what it can be referred to by, and its formulas."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.formulas = 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the tag."""
        given = dict(attrs)
        self.ids.add(given.get("id") or "")
        self.formulas += tag == "math"
        address = given.get("src") or given.get("href")
        if address:
            (self.links if tag == "a" else self.loads).append(address)


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` runs."""
    words = ["-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    return subprocess.run(
        [sys.executable, *words, str(source), str(folder / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    built = build(DOCS, folder)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page, parsed."""
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_source_is_a_page(site: Path, pages: dict[Path, Page]) -> None:
    wanted = {site / path.relative_to(DOCS).with_suffix(".html") for path in SOURCES} | {site / "explore.html"}
    assert len(wanted) > 12
    assert wanted <= set(pages)


def test_every_link_leads_to_a_file_and_an_anchor(pages: dict[Path, Page]) -> None:
    checked = 0
    for path, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme:
                continue
            address, anchor = urldefrag(link)
            target = (path.parent / unquote(address)).resolve() if address else path
            assert target.is_file(), f"{path.name}: {link}"
            if anchor and target in pages and target.name != "explore.html":
                assert unquote(anchor) in pages[target].ids, f"{path.name}: {link}"
            checked += 1
    assert checked > 200


def test_pages_load_nothing_from_other_hosts(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.loads:
            assert urlsplit(address).scheme in ("", "data"), f"{path.name} loads {address}"


def test_every_formula_is_typeset(site: Path, pages: dict[Path, Page]) -> None:
    for name in ("theory", "proofs"):
        text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", (DOCS / f"{name}.md").read_text(encoding="utf-8"))
        blocks = re.findall(r"(?s)\$\$.+?\$\$", text)
        inline = re.findall(r"\$[^$]+\$", re.sub(r"(?s)\$\$.+?\$\$", "", text))
        assert len(blocks) + len(inline) > 20
        assert pages[site / f"{name}.html"].formulas == len(blocks) + len(inline)


def test_every_row_of_the_map_has_its_equation(site: Path) -> None:
    section = (
        (ROOT / "README.md")
        .read_text(encoding="utf-8")
        .partition("## From equation to figure")[2]
        .partition("\n## ")[0]
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    numbers = MARKER.findall((DOCS / "theory.md").read_text(encoding="utf-8"))
    assert sorted(numbers) == sorted(row[0].strip() for row in rows)
    page = (site / "theory.html").read_text(encoding="utf-8")
    for row in rows:
        names = [name for name in re.findall(r"`([^`]+)`", row[1]) if "..." not in name]
        assert names
        for name in names:
            assert f">{name}</span>" in page, name


def test_broken_pages_break_the_build(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in ("conf.py", "explore.html", "_sphinx"):
        (source / name).symlink_to(DOCS / name)
    text = "# A\n\n$\\nosuchcommand{x}$\n\n[there](missing.md)\n\n[there](#nowhere)\n"
    (source / "index.md").write_text(text, encoding="utf-8")
    built = build(source, tmp_path)
    assert built.returncode != 0
    for complaint in ("formula holds LaTeX that is not known", "missing.md", "nowhere"):
        assert complaint in built.stderr


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser of its own."""
    with headless.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.mark.browser
@pytest.mark.parametrize("name", ["index", "theory", "proofs", "results/README"])
def test_pages_fit_a_phone_and_ask_for_nothing(site: Path, browser: webdriver.Chrome, name: str) -> None:
    headless.as_phone(browser)
    browser.get((site / f"{name}.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('math')].map(e => e.getBoundingClientRect().width)"
    )
    assert all(width > 0 for width in sizes)
    headless.as_desktop(browser)
    assert browser.get_log("browser") == []
    assert [url for url in headless.requested(browser) if not url.startswith(("file://", "data:", "about:"))] == []


@pytest.mark.browser
def test_search_works_without_a_server(site: Path, browser: webdriver.Chrome) -> None:
    browser.get((site / "search.html").as_uri() + "?q=hypergeometric")
    WebDriverWait(browser, 10).until(lambda driver: driver.find_elements(By.CSS_SELECTOR, "#search-results li a"))
    found = [link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, "#search-results li a")]
    assert any("theory.html" in address for address in found)
