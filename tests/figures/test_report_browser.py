"""The report in a real browser. Needs chromium and chromedriver, so it runs under the marker `browser` alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import headless
import pytest
from selenium import webdriver

from figures import catalogue

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(report_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A fresh headless browser with the report open."""
    with headless.chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.get(report_path.as_uri())
        yield driver


def test_the_console_is_silent_and_the_network_untouched(browser: webdriver.Chrome) -> None:
    assert browser.get_log("browser") == []
    asked = headless.requested(browser)
    assert any(url.startswith("file://") for url in asked), "the log must have seen the page itself"
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []


def test_every_image_loads_and_the_style_applies(browser: webdriver.Chrome) -> None:
    widths = browser.execute_script("return [...document.images].map(image => image.naturalWidth)")
    assert len(widths) == len(catalogue.ORDER)
    assert min(widths) > 1000
    assert (
        browser.execute_script("return getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
    )


def test_every_link_in_the_page_has_its_target(browser: webdriver.Chrome) -> None:
    script = (
        "return [...document.links].filter(link => !document.getElementById(link.hash.slice(1))).map(link => link.href)"
    )
    assert browser.execute_script("return document.links.length") > 20
    assert browser.execute_script(script) == []


def test_on_a_phone_the_page_itself_does_not_scroll_sideways(browser: webdriver.Chrome) -> None:
    headless.as_phone(browser)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    headless.as_desktop(browser)
    assert width <= 360
