"""All findings to one answer: the root cause first, consequences behind it, one word over all."""
