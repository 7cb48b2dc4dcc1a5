"""Checks that the job makes of itself, over its own process groups: each with a deadline, none hangs the job.

Ranks meet at the job's store (:mod:`hangtop.inside.checks.meeting`), never in a collective that would wait for whoever
does not come.
"""
