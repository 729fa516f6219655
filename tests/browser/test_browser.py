"""Report and index in a real browser: nothing leaves the page, the summary is on the first screen, print is whole."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from report_cases import learned_from_several, make_forecast, make_observations, report_data
from waiting import LIMIT_SECONDS, wait_until

from tdrop.home import Status
from tdrop.report import (
    IndexLine,
    SiteSummary,
    halt_of,
    render_details,
    render_halt,
    render_index,
    render_report,
    render_shift_page,
    report_summary,
)
from tdrop.served import Promotion

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
SCREENS = {"desk": (1280, 800), "phone": (390, 844)}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium (apt install chromium) to open pages")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes every kind of page."""
    workspace = tmp_path_factory.mktemp("pages")
    full = report_data(target_rows=600, source_rows=1200)
    expected = make_forecast(tuple(full.predictions), 1200, 600)
    full = replace(full, forecast=expected, observations=make_observations(expected, full.method, 600))
    full = learned_from_several(full, 1200, 600)
    full = replace(full, source_titles={name: f"{title} (simulated)" for name, title in full.source_titles.items()})
    bare = report_data(target_rows=600, source_rows=1200, labelled=False, method="logistic_regression")
    bare = learned_from_several(bare, 1200, 600)
    promotion = Promotion("harbour", "1", "ensemble", by="Dr Ada Long-Surname", note="agreed", when="2026-11-16")
    stopped = replace(bare, shift=replace(bare.shift, verdict="stop"), promotion=promotion)
    cases = {"full": full, "bare": bare, "stopped": stopped}
    for name, data in cases.items():
        (workspace / f"{name}.html").write_text(render_report(data), encoding="utf-8")
    (workspace / "details.html").write_text(render_details(full), encoding="utf-8")
    lines = [IndexLine(replace(report_summary(data), title=name), f"{name}.html") for name, data in cases.items()]
    (workspace / "index.html").write_text(render_index(lines), encoding="utf-8")
    page = render_shift_page(full.site, full.source_title, full.shift, full.matching, full.validation, full.contract)
    (workspace / "shift.html").write_text(page, encoding="utf-8")
    status = Status("ferryside", None, "stopped", "2026-11-16T09:30:00+00:00", reason="column 'stage' is missing")
    halt, letter = halt_of(status), "Your extract cannot be used as it is."
    halted = render_halt(halt, SiteSummary("ferryside", "Ferryside"), "full.html", letter)
    (workspace / "halted.html").write_text(halted, encoding="utf-8")
    return workspace


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=LIMIT_SECONDS * 1000)
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page with what it said and asked for while it was opened."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def visit(browser: Any, file: Path, screen: str = "desk") -> Opened:
    width, height = SCREENS[screen]
    opened = Opened(browser.new_page(viewport={"width": width, "height": height}))
    opened.page.on("console", lambda message: opened.messages.append(message.text))
    opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.set_default_timeout(LIMIT_SECONDS * 1000)
    opened.page.goto(file.as_uri())
    return opened


@pytest.mark.parametrize("name", ["full", "bare", "stopped", "details", "index", "shift", "halted"])
@pytest.mark.parametrize("screen", list(SCREENS))
def test_no_console_message_no_request_no_sideways_scroll(browser: Any, folder: Path, name: str, screen: str) -> None:
    opened = visit(browser, folder / f"{name}.html", screen)
    opened.page.mouse.wheel(0, 20_000)
    assert opened.messages == []
    assert opened.requests == [(folder / f"{name}.html").as_uri()]
    overflow = opened.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    opened.page.close()


@pytest.mark.parametrize("name", ["full", "bare", "stopped"])
@pytest.mark.parametrize("screen", list(SCREENS))
def test_the_summary_is_on_the_first_screen(browser: Any, folder: Path, name: str, screen: str) -> None:
    page = visit(browser, folder / f"{name}.html", screen).page
    bottom = page.evaluate("document.querySelector('#summary').getBoundingClientRect().bottom")
    assert bottom <= SCREENS[screen][1]
    for words in () if name == "stopped" else ("For review", "Patients", "Model", "Is it worth it?"):
        assert page.get_by_text(words, exact=True).first.is_visible()
    assert page.locator(".verdict .word").is_visible()
    page.close()


@pytest.mark.parametrize("screen", list(SCREENS))
def test_sites_side_by_side_do_not_run_into_each_other(browser: Any, folder: Path, screen: str) -> None:
    page = visit(browser, folder / "full.html", screen).page
    cells = page.evaluate(
        """() => [...document.querySelectorAll('#table-forest tr')].map(row => [...row.cells].map(cell => {
            const range = document.createRange();
            range.selectNodeContents(cell);
            const box = range.getBoundingClientRect();
            return [box.left, box.right, box.top, box.bottom];
        }).filter(([left, right]) => right > left))"""
    )
    assert len(cells) >= 4
    for row in cells:
        for (left, right, top, bottom), (start, end, high, low) in itertools.combinations(row, 2):
            assert right <= start + 1 or end <= left + 1 or bottom <= high + 1 or low <= top + 1
    for _, (left, right, *_), *_ in cells:
        assert right - left > 50, "the drawing has room"
    page.close()


def test_another_decision_level_can_be_tried_offline(browser: Any, folder: Path) -> None:
    opened = visit(browser, folder / "full.html")
    page, slider = opened.page, opened.page.get_by_role("slider")
    levels = {level: numbers for level, *numbers in json.loads(page.locator("#worth").get_attribute("data-levels"))}
    assert page.locator("output").inner_text() == "15%"
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert page.locator("output").inner_text() == "20%"
    flagged, found, missed, benefit, everybody = levels[20]
    model = page.locator("[data-strategy=model]")
    shown = {part: int(model.locator(f"[data-part={part}]").inner_text()) for part in ("found", "needless", "missed")}
    assert shown == {"found": found, "needless": flagged - found, "missed": missed}
    widths = [float(bar.get_attribute("width")) for bar in model.locator("rect").all()]
    assert sum(widths) == 100
    assert (
        f"{benefit:.1f} by the model, {everybody:.1f} acting on everybody" in page.locator("#net-benefit").inner_text()
    )
    assert opened.messages == []
    page.emulate_media(media="print")
    assert not slider.is_visible()
    page.close()


def test_the_letter_to_a_site_is_copied_with_one_click(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "halted.html").page
    page.get_by_role("button", name="Copy the letter").click()
    assert page.get_by_role("button").inner_text() in ("Copied", "Press Ctrl+C to copy")
    assert page.evaluate("window.getSelection().toString()") == "Your extract cannot be used as it is."
    page.close()


def test_the_policy_would_stop_a_script_and_a_picture(browser: Any, folder: Path) -> None:
    """The policy is not only written down: what is added to the page does not run or load."""
    text = (folder / "bare.html").read_text(encoding="utf-8")
    added = '<script>window.evil = 1</script><img alt="" src="https://example.invalid/x.png"></body>'
    (folder / "attacked.html").write_text(text.replace("</body>", added), encoding="utf-8")
    opened = visit(browser, folder / "attacked.html")
    assert opened.page.evaluate("window.evil") is None
    refused = [message for message in opened.messages if "Content Security Policy" in message]
    assert any("script" in message for message in refused)
    assert any("example.invalid" in message for message in refused)
    opened.page.close()


def test_tables_sort_by_number_and_by_name(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "details.html").page
    table = page.locator("#table-main")
    column = [cell.inner_text() for cell in table.locator("thead th").all()].index("Interval width")

    def values() -> list[str]:
        rows = table.locator("tbody tr").all()
        return [row.locator("th, td").nth(column).inner_text().split()[0] for row in rows]

    table.get_by_role("button", name="Interval width").click()
    ascending = [float(value) for value in values() if value != "n/a"]
    assert ascending == sorted(ascending)
    assert values()[-1] == "n/a", "what has no value stays last"
    table.get_by_role("button", name="Interval width").click()
    descending = [float(value) for value in values() if value != "n/a"]
    assert descending == sorted(ascending, reverse=True)
    assert values()[-1] == "n/a"
    assert table.locator("thead th").nth(column).get_attribute("aria-sort") == "descending"
    table.get_by_role("button", name="Method").press("Enter")
    names = [row.locator("th").inner_text() for row in table.locator("tbody tr").all()]
    assert names == sorted(names, key=str.lower)
    page.close()


def test_the_table_of_methods_is_there_once_and_switches_what_it_holds(browser: Any, folder: Path) -> None:
    """Without any script, so that a reader who forbids them can switch too."""
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto((folder / "details.html").as_uri())
    views = page.locator("#views-methods")
    assert views.locator("table:visible").count() == 1
    assert views.get_by_text("All methods at this site", exact=True).is_visible()
    for name, table in (("Net benefit", "benefit"), ("Are the risks right", "scores"), ("Chosen by", "choice")):
        views.get_by_text(name, exact=True).first.click()
        assert views.locator("table:visible").count() == 1
        assert page.locator(f"#table-{table}").is_visible()
    page.emulate_media(media="print")
    assert views.locator("table:visible").count() == views.locator("input").count() >= 7
    context.close()


def test_the_order_of_one_view_is_kept_in_the_others(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "details.html").page

    def names(table: str) -> list[str]:
        return page.locator(f"#table-{table} tbody th").all_inner_texts()

    page.locator("#table-main").get_by_role("button", name="Test AUROC").click()
    order = names("main")
    page.get_by_role("radio", name="Are the risks right").check(force=True)
    assert names("scores") == order
    assert order != sorted(order)
    page.close()


@pytest.mark.parametrize("name", ["details", "shift"])
def test_figures_fit_a_phone_and_their_text_can_be_read(browser: Any, folder: Path, name: str) -> None:
    page = visit(browser, folder / f"{name}.html", "phone").page
    found = page.evaluate(
        """() => [...document.querySelectorAll('figure img')].map(img => [img.alt,
            img.getBoundingClientRect().right, img.getBoundingClientRect().width / (img.naturalWidth * 3 / 4)])"""
    )
    assert found
    for figure, right, scale in found:
        assert right <= 390, figure
        assert 7.5 * scale >= 10, f"{figure}: the smallest text is under 10 pixels"
    page.close()


def test_no_labels_of_a_figure_collide(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "details.html").page
    drawn = page.evaluate("[...document.querySelectorAll('figure img')].map(i => atob(i.src.split(',')[1]))")
    assert len(drawn) >= 14
    page.close()
    # On a page of its own, which allows the styles of an SVG file.
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_content("".join(svg[svg.index("<svg") :] for svg in drawn))
    collisions = page.evaluate(
        """() => [...document.querySelectorAll('svg')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')].filter(t => !/rotate\\((?!0)/.test(t.outerHTML));
            const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
            const outer = svg.getBoundingClientRect();
            const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1
                || a.bottom <= b.top + 3 || b.bottom <= a.top + 3;
            const cut = boxes.filter(([, b]) => b.left < outer.left - 1 || b.right > outer.right + 1
                || b.bottom > outer.bottom + 1).map(([t]) => ['cut', t]);
            return cut.concat(boxes.flatMap(([t, a], i) => boxes.slice(i + 1)
                .filter(([, b]) => !apart(a, b)).map(([u]) => [svg.querySelector('title').textContent, t, u])));
        })"""
    )
    assert collisions == []
    page.close()


def test_index_sorts_and_links(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "index.html").page
    sites = page.locator("#table-sites")
    sites.get_by_role("button", name="Verdict").click()
    sites.get_by_role("button", name="Verdict").click()
    assert sites.locator("tbody tr").first.locator("th").inner_text().startswith("stopped")
    sites.get_by_role("link", name="full").click()
    assert page.url == (folder / "full.html").as_uri()
    page.close()


@pytest.mark.parametrize(
    ("name", "copy"), [("full", "sites/harbour/latest/report.html"), ("halted", "sites/ferryside/stopped.html")]
)
def test_a_page_below_its_home_leads_back_to_all_sites(browser: Any, folder: Path, name: str, copy: str) -> None:
    mailed = visit(browser, folder / f"{name}.html").page
    assert not mailed.get_by_text("All sites").is_visible(), "a copy that was mailed has nowhere to go back to"
    mailed.close()
    at_home = folder / copy
    at_home.parent.mkdir(parents=True)
    at_home.write_text((folder / f"{name}.html").read_text(encoding="utf-8"), encoding="utf-8")
    page = visit(browser, at_home).page
    page.get_by_role("link", name="All sites").click()
    assert page.url == (folder / "index.html").as_uri()
    page.close()


@pytest.mark.parametrize("name", ["full", "stopped", "details", "halted"])
def test_text_has_enough_contrast(browser: Any, folder: Path, name: str) -> None:
    """WCAG AA: 4.5 to 1, for every element that holds text of its own."""
    page = visit(browser, folder / f"{name}.html").page
    ratios = page.evaluate(
        """() => {
        const rgb = c => c.match(/[\\d.]+/g).map(Number);
        const lum = ([r, g, b]) => [r, g, b].map(v => v / 255)
            .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
        const back = e => { while (e) { const c = rgb(getComputedStyle(e).backgroundColor);
            if (c.length < 4 || c[3] > 0) return c; e = e.parentElement; } return [255, 255, 255]; };
        return [...document.querySelectorAll('body *:not(svg *)')]
            .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
            .filter(e => !['SCRIPT', 'STYLE'].includes(e.tagName))
            .map(e => { const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(back(e))].sort((x, y) => y - x);
                return [(a + .05) / (b + .05), e.tagName, e.className, e.textContent.slice(0, 40)]; });
        }"""
    )
    assert len(ratios) > 5
    assert min(ratios)[0] >= 4.5, min(ratios)
    page.close()


@pytest.mark.parametrize("name", ["full", "stopped", "details", "index", "shift", "halted"])
def test_axe_finds_nothing(browser: Any, folder: Path, name: str) -> None:
    """Every rule of axe-core, best practices too, with all that is folded open."""
    from axe_playwright_python.sync_playwright import Axe

    page = visit(browser, folder / f"{name}.html").page
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    found = Axe().run(page).response
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == []
    page.close()


@pytest.mark.parametrize("name", ["full", "bare", "stopped"])
def test_what_is_signed_is_one_printed_page(browser: Any, folder: Path, name: str) -> None:
    page = visit(browser, folder / f"{name}.html").page
    page.emulate_media(media="print")
    # A4 less its margins of 14 mm: 182 by 269 mm.
    page.set_viewport_size({"width": 688, "height": 1016})
    assert page.evaluate("document.getElementById('approval').getBoundingClientRect().bottom") <= 1016
    page.close()


@pytest.mark.parametrize("name", ["full", "details", "index"])
def test_print_to_a4_cuts_no_table(browser: Any, folder: Path, name: str) -> None:
    page = visit(browser, folder / f"{name}.html").page
    page.emulate_media(media="print")
    # A4 less its margins of 14 mm is 182 mm: 688 pixels.
    page.set_viewport_size({"width": 688, "height": 1000})
    wide = page.evaluate(
        """() => [...document.querySelectorAll('table, figure img')]
            .map(e => [e.id || e.alt, e.getBoundingClientRect().right])
            .filter(([, right]) => right > document.documentElement.clientWidth + 1)"""
    )
    assert wide == []
    content = page.pdf(format="A4", prefer_css_page_size=True)
    assert content.startswith(b"%PDF")
    page.close()


def test_details_are_open_on_paper(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "details.html").page
    assert page.locator("details[open]").count() == 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.close()


def test_wide_tables_scroll_by_keyboard_on_a_phone(browser: Any, folder: Path) -> None:
    page = visit(browser, folder / "details.html", "phone").page
    region = page.get_by_role("region", name="All methods at this site")
    region.focus()
    assert region.evaluate("e => e.scrollWidth > e.clientWidth")
    page.keyboard.press("ArrowRight")
    wait_until(lambda: region.evaluate("e => e.scrollLeft") > 0)
    page.close()
