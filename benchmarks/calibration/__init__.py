"""Error rates, power, coverage and classes of the product's statistics on cohorts with planted truths.

    python benchmarks/calibration/run.py [--quick | --full] [--seed N] [-o DIR]

Cohorts are drawn from the score model (segaudit.simulate), judged by the product's own functions, and counted. One
table comes out; docs/calibration.md reads it.
"""
