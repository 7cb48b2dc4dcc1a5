"""Python 3.14's own way into a running process, by consent: stacks and torch's flight recorder."""
