"""The functions of Python: one for each command, with its name, its options as keywords, and their defaults.

Each makes of its arguments the same mapping, ``given``, that its command makes of the options, and both hand
it to the same code here. A new function takes its parameters from its command, is decorated with `verb`,
calls `gathered`, and is listed in ``odm._HOMES``; `tests/test_verbs.py` compares the two.
"""
