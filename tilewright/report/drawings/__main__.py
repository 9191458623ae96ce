"""``python -m tilewright.report.drawings``: the drawings of docs/ made again."""

from pathlib import Path

from tilewright.base.files import write_atomic
from tilewright.report.drawings import draw_all

if __name__ == "__main__":
    for name, drawing in draw_all().items():
        path = Path(__file__).parents[3] / "docs" / f"{name}.svg"
        write_atomic(path, drawing.file())
        print(path)
