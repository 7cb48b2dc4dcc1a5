"""What was told and what happened, of many ranks in one list."""
