"""Dialogs over the panels: questions, confirmations, texts."""
