"""``python -m tilewright``: the same command line where no script is installed."""

import sys

from tilewright.cli import main

sys.exit(main())
