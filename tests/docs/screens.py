"""Every page of the site as a reader sees it; run by `nox -s screens`.

A page must not be wider than its window, every picture must be there, and no script may fail. Some
pages are photographed, to be looked at.
"""

import argparse
import sys
from pathlib import Path

from tests.docs.browser import Browser, open_browser

PICTURES = {
    "index.html": "site",
    "tutorial.html": "tutorial",
    "lab.html": "lab",
    "harmonia.html": "harmonia",
    "reference/blocks.html": "reference",
    "reference/api/tilewright.golden.deca.html": "api",
    "reference/commands.html": "commands",
    "results/index.html": "results",
    "results/deca.html": "deca",
    "results/models.html": "models",
    "results/accuracy.html": "accuracy",
    "results/blocks.html": "blocks",
}
WIDTHS = {"phone": 390, "desktop": 1280}
HEIGHT = 1600  # of a picture; pages may be longer

WIDTH = "document.scrollingElement.scrollWidth"
MISSING = """[...document.images]
    .filter(image => image.naturalWidth == 0 && image.getClientRects().length > 0)
    .map(image => image.src)"""
# Elements that stick out: the innermost elements that no scrolling box holds.
CULPRITS = """[...document.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().left + e.scrollWidth > %d + 1)
    .filter(e => { for (let p = e; p; p = p.parentElement)
        if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)) return false;
        return true; })
    .slice(-2).map(e => e.tagName + ": " + e.textContent.slice(0, 60))"""


def problems(browser: Browser, address: str, width: int) -> list[str]:
    """Open a page; what is wrong with it at that width.

    Not at ``window.innerWidth``: a phone zooms out until a page that is too wide fits its window.
    """
    browser.open(address, width, HEIGHT, phone=width < 600)
    found = []
    if (pixels := browser.evaluate(WIDTH)) > width:
        found.append(f"{pixels} pixels wide: {browser.evaluate(CULPRITS % width)}")
    found += [f"no picture {source}" for source in browser.evaluate(MISSING)]
    return [*found, *browser.errors]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.docs.screens", description=__doc__)
    parser.add_argument("--built", type=Path, default=Path("out/docs"), metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, default=Path("out/screens"), metavar="DIR")
    args = parser.parse_args()
    built = sorted(args.built.rglob("*.html"))
    names = {args.built / page: name for page, name in PICTURES.items()}
    if absent := set(names) - set(built):
        parser.error(f"{min(absent)} has not been built")
    args.output.mkdir(parents=True, exist_ok=True)
    failed = 0
    with open_browser() as browser:
        for page in built:
            for device, width in WIDTHS.items():
                found = problems(browser, page.resolve().as_uri(), width)
                failed += bool(found)
                for problem in found:
                    print(f"{page} on a {device}: {problem}")
                if page in names:
                    picture = args.output / f"{names[page]}-{device}.png"
                    picture.write_bytes(browser.screenshot())
    print(f"{len(built)} pages on {len(WIDTHS)} devices, {failed} with problems; see {args.output}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
