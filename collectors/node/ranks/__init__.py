"""Which processes of a node are ranks of a job, which number each has, and what moves in them."""
