"""Checks of the job by itself, over its own process groups: each check has a deadline, and no check hangs the job.

Ranks meet at the job's store (:mod:`hangtop.inside.checks.meeting`), never in a collective, which would wait for absent
ranks.
"""
