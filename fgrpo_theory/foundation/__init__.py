"""What every package shares: input checks, seeds, run folders, atomic files, provenance, printed tables.

It lives in the lowest package so that one rule serves all; it contains no formula.
"""
