"""What a key press or a command asks of the nodes: who can be asked, the question put to all, the answer judged."""
