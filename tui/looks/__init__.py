"""How things look: text, numbers and names in few cells, colours, glyphs."""
