"""The interactive page in a real browser: its laws against fgrpo_theory, and its use by keyboard, by address and on a phone."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import headless
import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import fgrpo_theory as theory
from figures.explore import PRESETS, WRONG_ANSWERS, write_page

pytestmark = pytest.mark.browser

SIZES = [1, 2, 3, 8, 17, 256, 8192, 131072]
MU = [1e-6, 0.002, 0.3, 0.5, 0.63, 0.97, 0.9999]
RHO = [1e-4, 0.013, 0.1, 0.5, 0.9, 1.0]
GAMMA = [0.0, 0.5, 1.0, 2.3]
START = "N=8&mu=0.3&rho=0.1&gamma=1&miss=0.05"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[webdriver.Chrome, str]]:
    """The browser and the page's address."""
    page = write_page(tmp_path_factory.mktemp("page") / "explore.html")
    with headless.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver, page.as_uri()


@pytest.fixture
def browser(opened: tuple[webdriver.Chrome, str]) -> Iterator[webdriver.Chrome]:
    """The page at its start settings; afterwards the console must be silent and the network untouched."""
    driver, address = opened
    driver.get("about:blank")
    driver.get(f"{address}#{START}")
    yield driver
    assert driver.get_log("browser") == []
    asked = headless.requested(driver)
    assert any(url.startswith("file://") for url in asked), "the log must have seen the page itself"
    assert [url for url in asked if not url.startswith(("file://", "data:", "about:"))] == []


def computed(browser: webdriver.Chrome, expression: str, *axes: list[float]) -> list[Any]:
    """The JavaScript expression in x (one point of the grid) at every point; what is not a number comes back as NaN."""
    points = list(itertools.product(*axes))
    script = f"return JSON.stringify(JSON.parse(arguments[0]).map(x => {expression}))"
    values = json.loads(browser.execute_script(script, json.dumps(points)))
    assert len(values) == len(points)
    return [float("nan") if value is None else value for value in values]


def grid(function: Callable[..., Any], *axes: list[float]) -> np.ndarray:
    """The same of a Python function that broadcasts."""
    return np.asarray(function(*np.array(list(itertools.product(*axes))).T))


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("tailMissProbability", theory.tail_miss_probability),
        ("conditionalTailMissProbability", theory.conditional_tail_miss_probability),
    ],
)
def test_tail_misses_equal_the_theory(browser: webdriver.Chrome, name: str, python: Callable[..., Any]) -> None:
    found = computed(browser, f"fgrpo.{name}(x[0], x[1], x[1] * x[2])", SIZES, MU, RHO)
    wanted = grid(lambda n, mu, rho: python(n, mu, mu * rho), SIZES, MU, RHO)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-300)


def test_activity_weight_and_advantages_equal_the_theory(browser: webdriver.Chrome) -> None:
    found = computed(browser, "fgrpo.activeProbability(x[0], x[1])", SIZES, MU)
    np.testing.assert_allclose(found, grid(theory.active_probability, SIZES, MU), rtol=1e-9)
    for gamma in GAMMA:
        sides = computed(
            browser, f"[...fgrpo.advantageMagnitudes(x[0], {gamma}), fgrpo.focalWeight(x[0], {gamma})]", MU
        )
        wanted = [*theory.advantage_magnitudes(MU, gamma), theory.focal_weight(np.array(MU), gamma)]
        np.testing.assert_allclose(np.transpose(sides), wanted, rtol=1e-9)


def test_worst_zone_and_safe_sizes_equal_the_theory(browser: webdriver.Chrome) -> None:
    some = [rho for rho in RHO if rho < 1]
    script = "[fgrpo.peakGroupSize(x[0], x[0] * x[1]), ...fgrpo.concentrationZone(x[0], x[0] * x[1])]"
    found = np.transpose(computed(browser, script, MU, some))
    peak = grid(lambda mu, rho: theory.peak_group_size(mu, mu * rho), MU, some)
    zone = grid(lambda mu, rho: theory.concentration_zone(mu, mu * rho), MU, some)
    np.testing.assert_array_equal(found, [peak, *zone])
    limits = [1e-6, 0.05, 0.5]
    safe = computed(browser, "fgrpo.coveringGroupSize(x[0], x[0] * x[1], x[2])", MU, RHO, limits)
    wanted = grid(lambda mu, rho, most: theory.covering_group_size(mu, mu * rho, most), MU, RHO, limits)
    np.testing.assert_array_equal(safe, wanted)


def test_update_sizes_equal_the_theory(browser: webdriver.Chrome) -> None:
    for gamma in GAMMA:
        found = computed(browser, f"fgrpo.expectedUpdateScale(x[0], x[1], {gamma})", SIZES[1:], MU)
        wanted = grid(lambda n, mu, gamma=gamma: theory.expected_update_scale(n, mu, gamma), SIZES[1:], MU)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_expected_changes_equal_the_theory(browser: webdriver.Chrome) -> None:
    """dQ_u,pos is a sum of two terms that may cancel: its scale is that of the terms, at most Q_pos times dQ_pos's."""
    axes = ([1, 2, 3, 8, 256, 8192], [0.002, 0.3, 0.5, 0.97], [1e-4, 0.1, 0.5, 1.0], GAMMA)
    script = f"fgrpo.expectedMassChanges(x[0], x[1], x[1] * x[2], x[3], {WRONG_ANSWERS})"
    for found, (n, mu, rho, gamma) in zip(computed(browser, script, *axes), itertools.product(*axes), strict=True):
        p = [mu * rho, mu - mu * rho, (1 - mu) / WRONG_ANSWERS]
        options: dict[str, Any] = {"gamma": gamma, "surrogate": "ratio", "std_scaled": True, "reward_wrong": 0.0}
        wanted = theory.expected_mass_changes(p, [1, 1, WRONG_ANSWERS], [True, True, False], int(n), **options)
        assert found[0] == pytest.approx(wanted[0], rel=1e-9)
        assert found[1] == pytest.approx(wanted[1], rel=1e-9, abs=1e-12 * wanted[0])


def test_the_read_out_and_the_sentence_say_the_laws(browser: webdriver.Chrome) -> None:
    read = {
        name: browser.find_element(By.ID, f"read-{name}").text
        for name in ("tail", "active", "peak", "zone", "cover", "kept")
    }
    miss, active = theory.tail_miss_probability(8, 0.3, 0.03), theory.active_probability(8, 0.3)
    kept = theory.expected_update_scale(8, 0.3, 1.0) / theory.expected_update_scale(8, 0.3, 0.0)
    low, high = theory.concentration_zone(0.3, 0.03)
    safe = theory.covering_group_size(0.3, 0.03, 0.05)
    assert read == {
        "tail": f"{100 * miss:.3g} %",
        "active": f"{100 * active:.3g} %",
        "peak": str(theory.peak_group_size(0.3, 0.03)),
        "zone": f"{low} to {high}",
        "cover": str(safe),
        "kept": f"{100 * kept:.3g} %",
    }
    said = browser.find_element(By.ID, "sentence").text
    assert f"At N = 8, {100 * miss:.3g} % of groups" in said
    assert f"inside the concentration zone, N = {low} to {high}" in said
    assert f"From N = {safe} on" in said
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#table tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[0] for row in rows[:4]] == ["1", "2", "4", "8"]
    assert float(rows[3][2]) == pytest.approx(miss, rel=1e-3)


def test_the_curves_are_the_laws(browser: webdriver.Chrome) -> None:
    """The first point of a path is at the left edge; the dot of the tail miss stands where the axis says."""
    script = """
      const svg = document.querySelector('#miss-chart svg');
      const lines = [...svg.querySelectorAll('line.grid')].map(l => [+l.getAttribute('y1'), +l.getAttribute('y2')]);
      const grid = lines.filter(([from, to]) => from === to).map(([from]) => from);
      const dot = svg.querySelector('circle.dot.first');
      return [Math.max(...grid), Math.min(...grid), +dot.getAttribute('cy')]"""
    bottom, top, dot = browser.execute_script(script)
    assert (bottom - dot) / (bottom - top) == pytest.approx(theory.tail_miss_probability(8, 0.3, 0.03), abs=1e-6)


def test_the_keyboard_moves_everything(browser: webdriver.Chrome) -> None:
    slider = browser.find_element(By.ID, "N-slider")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.switch_to.active_element == slider, "the first stop of the tab key is the first slider"
    assert browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    before = (
        browser.find_element(By.ID, "sentence").text,
        browser.find_element(By.CSS_SELECTOR, "#drift-chart .first:not(.faint)").get_attribute("d"),
    )
    slider.send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element(By.ID, "N-value").get_attribute("value") == "10"
    assert slider.get_attribute("aria-valuetext") == "10"
    assert "#N=10&mu=0.3" in browser.current_url
    slider.send_keys(Keys.HOME)
    assert "A group of one is never active." in browser.find_element(By.ID, "sentence").text
    slider.send_keys(Keys.TAB)
    assert browser.switch_to.active_element == browser.find_element(By.ID, "N-value")
    browser.find_element(By.ID, "gamma-slider").send_keys(Keys.END)
    after = (
        browser.find_element(By.ID, "sentence").text,
        browser.find_element(By.CSS_SELECTOR, "#drift-chart .first:not(.faint)").get_attribute("d"),
    )
    assert all(new != old for new, old in zip(after, before, strict=True))


def test_typed_values_are_taken_or_refused_in_words(browser: webdriver.Chrome) -> None:
    field = browser.find_element(By.ID, "N-value")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("37")
    assert "At N = 37," in browser.find_element(By.ID, "sentence").text
    for wrong in ("0", "2.5", "many", "0x10"):
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(wrong)
        assert field.get_attribute("aria-invalid") == "true"
        complaint = browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
        assert complaint == f"N must be a whole number from 1 to 1,048,576, got {wrong}."
    field.send_keys(Keys.TAB)
    assert field.get_attribute("value") == str(browser.execute_script("return fgrpo.page.state().N"))
    assert field.get_attribute("aria-invalid") is None


def test_the_address_keeps_the_state(browser: webdriver.Chrome) -> None:
    browser.execute_script("location.hash = 'N=64&mu=0.7&rho=0.02&gamma=0.5&miss=0.01'")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    wanted = {"N": 64, "mu": 0.7, "rho": 0.02, "gamma": 0.5, "miss": 0.01}
    assert browser.execute_script("return fgrpo.page.state()") == wanted
    browser.refresh()
    assert browser.execute_script("return fgrpo.page.state()") == wanted
    browser.execute_script("location.hash = 'N=64&mu=7&rho='")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    assert browser.execute_script("return fgrpo.page.state()") == wanted
    complaint = browser.find_element(By.CSS_SELECTOR, "[role=alert]").text
    assert complaint == "mu must be above 0 and below 1, got 7. rho must be above 0 and at most 1, got nothing."


@pytest.mark.parametrize(
    "state",
    [
        *(preset["state"] for preset in PRESETS),
        "N=1&rho=1",
        "N=1048576&mu=0.999&rho=1&gamma=16",
        "N=2&mu=0.001&rho=0.0001&miss=1e-6",
    ],
)
def test_every_example_and_every_edge_can_be_shown(browser: webdriver.Chrome, state: str) -> None:
    browser.execute_script("location.hash = arguments[0]", state)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    body = browser.find_element(By.TAG_NAME, "body").text
    assert not [word for word in ("NaN", "Infinity", "undefined", "null") if word in body]
    headless.as_phone(browser)
    width = browser.execute_script("return document.documentElement.scrollWidth")
    headless.as_desktop(browser)
    assert width <= 360


def test_on_a_phone_every_control_can_be_touched(browser: webdriver.Chrome) -> None:
    headless.as_phone(browser)
    try:
        script = "return [...document.querySelectorAll('input, button')].map(e => e.getBoundingClientRect().toJSON())"
        boxes = browser.execute_script(script)
        assert len(boxes) == 10 + len(PRESETS)
        assert all(box["left"] >= 0 and box["right"] <= 360 and box["height"] >= 24 for box in boxes)
        strip = browser.execute_script(
            "return document.getElementById('strip').getBoundingClientRect().bottom - innerHeight"
        )
        assert abs(strip) < 1, "the essential numbers stay at the bottom of the screen"
    finally:
        headless.as_desktop(browser)


def test_assistive_technology_finds_names_and_the_live_sentence(browser: webdriver.Chrome) -> None:
    inputs = "[...document.querySelectorAll('input')]"
    unnamed = browser.execute_script(f"return {inputs}.filter(e => !e.labels.length && !e.ariaLabel).map(e => e.id)")
    assert unnamed == []
    images = browser.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map(e => e.getAttribute('aria-label'))"
    )
    assert len(images) == 3
    assert "72.6 %" in images[0]
    assert browser.find_element(By.ID, "sentence").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_in_both_colour_schemes(browser: webdriver.Chrome, scheme: str) -> None:
    headless.colour_scheme(browser, scheme)
    names = ("ink", "soft", "bad", "first", "second", "third", "paper", "panel")
    style = "getComputedStyle(document.documentElement)"
    values = browser.execute_script(f"return arguments[0].map(n => {style}.getPropertyValue('--' + n).trim())", names)
    colours = dict(zip(names, map(luminance, values), strict=True))
    assert (colours["paper"] > 0.5) == (scheme == "light")
    for text in names[:6]:
        for ground in ("paper", "panel"):
            high, low = sorted((colours[text], colours[ground]), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{text} on {ground}"


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
