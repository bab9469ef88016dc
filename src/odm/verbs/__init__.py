"""The functions of Python: one for each command, with its name, its options as keywords, and their defaults.

Each has a record of its options (`options.py`), which its command has too, and both hand it to the same code
here. A new function is decorated with `verb` and its record, and is listed in ``odm._HOMES``; the suite in
`tests/test_verbs.py` compares the two.
"""
