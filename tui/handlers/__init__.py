"""Functions that actions run; each takes the application."""
