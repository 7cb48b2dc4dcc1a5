"""When a session looks at stacks, asks the job's own sources (recorder, RAS), and judges."""
