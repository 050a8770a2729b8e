"""Disturbed runs: ``python -m chaos`` in the folder ``tests``, or ``make chaos``.

A command is disturbed: killed at a random moment, on a full or slow disk, with little memory, with few file handles,
with a clock that jumps, with signals that are doubled or ignored. Then the same command runs again, undisturbed. It
must end with the result of a run that nothing disturbed, and the disturbed one must not have shown a traceback.
"""
