"""Tuning: measure the ways to compute that backends offer, on the machine at hand, and remember which was fastest.

`keys` says what a measurement holds for, `stored` keeps what was found and hands it to loads, `measuring` measures, `report` is
what the caller gets.
"""
