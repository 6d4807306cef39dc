"""Planted faults: small wrong edits to the package, each of which a named test must notice.

A test that passes proves little until it has been seen to fail. Every record here is one edit that changes a computed,
measured or recorded value, and the test that must fail for it; ``python -m tests.mutants`` plants them all, the suite
plants eight of them, others for every state of the package.
"""
