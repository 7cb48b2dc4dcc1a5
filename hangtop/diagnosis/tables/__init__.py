"""Knowledge as data: what codes, names and thresholds mean, each with its source."""
