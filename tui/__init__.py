"""The screen: draws the session with Textual."""
