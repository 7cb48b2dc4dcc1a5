"""What the state does not hold but implies: counts, rates, totals and short histories, worked out a part at a time."""
