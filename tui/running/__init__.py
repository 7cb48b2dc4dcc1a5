"""What keeps the application running: its start, when it draws, its memory, its terminal, its alarm."""
