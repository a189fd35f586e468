"""`python -m codegen.extract`."""

import sys

from codegen.extract.cli import main

sys.exit(main(sys.argv[1:]))
