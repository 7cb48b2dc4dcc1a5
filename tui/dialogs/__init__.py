"""What is shown over the panels: questions, confirmations, texts."""
