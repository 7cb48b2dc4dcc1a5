"""The commands: the session without a screen, and the door to the screen."""
