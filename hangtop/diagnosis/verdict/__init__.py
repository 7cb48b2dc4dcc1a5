"""From all findings to one verdict: root causes first, consequences after them, and one word for the job."""
