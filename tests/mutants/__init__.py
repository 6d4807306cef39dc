"""Planted faults: small wrong edits to the package, each of which a named test must notice.

A test that passes says little until it has been seen to fail. Every record here is one edit that changes what is
computed, measured or written down, and the test that has to fail for it; ``python -m tests.mutants`` plants them all,
the suite eight of them, others for every state of the package.
"""
