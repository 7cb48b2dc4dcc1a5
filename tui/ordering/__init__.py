"""Which rows there are, which pass the filter, in which order and which groups."""
