"""How things look: text, numbers and names in few cells, keys, colours, glyphs."""
