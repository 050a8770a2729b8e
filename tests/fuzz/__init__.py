"""Broken files for every reader: ``python -m fuzz`` in the folder ``tests``, or ``make fuzz``.

A reader takes whatever people, cameras and other programs feed it. Whatever that is, it answers with a value or with a
:class:`~x2localizer.errors.UserError`; never with another exception, a dead process, a hang, or all of the memory.
"""
