"""A real browser for tests of pages: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
QUIET = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
"""So that it starts as root in a container, and asks nobody for anything."""

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@contextmanager
def chromium(more: Sequence[str] = ()) -> Iterator[Browser]:
    """A browser without a window; ``more`` are further options of its command line."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, *more])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(
    browser: Browser, address: str | Path, width: int = 1200, height: int = 900, *, dark: bool = False,
    touch: bool = False, offline: bool = False,
) -> Iterator[Page]:  # fmt: skip
    """An open page; at the end it must not have reported any error."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", has_touch=touch,
        offline=offline,
    )  # fmt: skip
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    try:
        page.goto(address.resolve().as_uri() if isinstance(address, Path) else address)
        yield page
        assert not problems, problems
    finally:
        context.close()
