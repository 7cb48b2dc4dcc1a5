"""What a rank's environment gets wrong: names nobody reads, values nobody accepts, ranks that disagree."""
