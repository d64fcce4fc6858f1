"""A fresh headless Chromium for the tests marked `browser`, and what it asked the network for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

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


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile in that folder and empty logs; it ends with the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium")
    for option in (*OPTIONS, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(program("chromedriver")))
    try:
        # The browser's own start page fetches its parts; leave it and forget what it logged.
        driver.get("about:blank")
        driver.get_log("performance")
        yield driver
    finally:
        driver.quit()


def requested(driver: webdriver.Chrome) -> list[str]:
    """Every address asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def as_phone(driver: webdriver.Chrome, width: int = 360) -> None:
    """A window as wide as a phone's, with its pixel ratio."""
    metrics = {"width": width, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def as_desktop(driver: webdriver.Chrome) -> None:
    """The window's own size again."""
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def colour_scheme(driver: webdriver.Chrome, scheme: str) -> None:
    """Prefer "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
