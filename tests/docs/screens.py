"""Pages of the site and of the report as a reader sees them; run by `nox -s screens`.

A page must not be wider than its window, and every picture must be there.
"""

import argparse
import sys
from pathlib import Path

from tests.docs.browser import Browser, open_browser

PAGES = {
    "site": "docs/index.html",
    "tutorial": "docs/tutorial.html",
    "api": "docs/reference/api/tilewright.golden.deca.html",
    "commands": "docs/reference/commands.html",
    "report": "report/index.html",
    "report-deca": "report/deca.html",
}
WIDTHS = {"phone": 390, "desktop": 1280}
HEIGHT = 1600  # of a picture; pages may be longer

TOO_WIDE = "Math.max(0, document.scrollingElement.scrollWidth - window.innerWidth)"
MISSING = """[...document.images]
    .filter(image => image.naturalWidth == 0 && image.getClientRects().length > 0)
    .map(image => image.src)"""
# What sticks out, for whoever has to mend it: elements that no scrolling box holds.
CULPRITS = """[...document.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1)
    .filter(e => { for (let p = e; p; p = p.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) return false;
        return true; })
    .slice(0, 3).map(e => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 60))"""


def problems(browser: Browser, address: str, width: int) -> list[str]:
    """Open a page; what is wrong with it at that width."""
    browser.open(address, width, HEIGHT, phone=width < 600)
    found = []
    if pixels := browser.evaluate(TOO_WIDE):
        found.append(f"{pixels} pixels too wide: {browser.evaluate(CULPRITS)}")
    return [*found, *(f"no picture {source}" for source in browser.evaluate(MISSING))]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.screens", description=__doc__)
    parser.add_argument("--built", type=Path, default=Path("out"), metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/screens"), metavar="DIR")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    failed = False
    with open_browser() as browser:
        for name, page in PAGES.items():
            path = (args.built / page).resolve(strict=True)
            for device, width in WIDTHS.items():
                found = problems(browser, path.as_uri(), width)
                picture = args.output / f"{name}-{device}.png"
                picture.write_bytes(browser.screenshot())
                print(f"{picture}: {'; '.join(found) or 'fine'}")
                failed = failed or bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
