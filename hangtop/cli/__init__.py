"""The commands: they use the session without a screen, or open the screen."""
