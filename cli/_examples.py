"""An example of each code: a line of input, where one line shows it, and what is printed.

Made from the bad fixtures by ``python tests/write_examples.py``; do not edit it by hand.
"""

EXAMPLES: dict[str, tuple[str, str]] = {}
