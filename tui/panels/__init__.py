"""The panels, one file each; ``tui.panels.registry`` numbers them."""
