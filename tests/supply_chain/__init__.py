"""What the package stands on: ``python -m supply_chain`` in the folder ``tests``, or ``make audit``.

Licences of all dependencies against a list of those that we accept, known vulnerabilities by pip-audit, and a software
bill of materials by CycloneDX. Without a network, licences are still checked and the rest says what it could not do.
"""
