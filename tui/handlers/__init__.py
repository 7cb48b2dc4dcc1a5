"""What the actions do, an idea a file. Each takes the application."""
