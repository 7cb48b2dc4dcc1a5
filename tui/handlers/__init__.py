"""What the actions do, an idea a file. Each takes the application, as :class:`tui.host.Host` shows it."""
