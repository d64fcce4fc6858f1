"""The report in a real browser. Needs chromium and chromedriver, so it runs under the marker `browser` alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from figures import catalogue

pytestmark = pytest.mark.browser

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def program(name: str) -> str:
    """Where a program lies; its absence is a failure, not a skip."""
    path = shutil.which(name)
    assert path, f"{name} is not installed; the tests marked `browser` need it"
    return path


@pytest.fixture(scope="module")
def browser(report_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A fresh headless browser with the report open."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium")
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(program("chromedriver")))
    try:
        # The browser's own start page fetches its parts; leave it and forget what it logged.
        driver.get("about:blank")
        driver.get_log("performance")
        driver.get(report_path.as_uri())
        yield driver
    finally:
        driver.quit()


def test_the_console_is_silent_and_the_network_untouched(browser: webdriver.Chrome) -> None:
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
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
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 360
