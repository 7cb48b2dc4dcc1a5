"""What lines say: a family of lines, told by one program or about one matter, a file."""
