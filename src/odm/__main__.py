"""``python -m odm``."""

from odm.cli import main

main()
