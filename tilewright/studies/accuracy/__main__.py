"""``python -m tilewright.studies.accuracy MODEL``: every committed record, made again in one go."""

import sys

from tilewright.cli.accuracy_records import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
