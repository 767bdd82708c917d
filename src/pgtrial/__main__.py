"""python -m pgtrial."""

import sys

from pgtrial.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
