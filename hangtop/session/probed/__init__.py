"""What becomes of a probe's answer: kept, compared with the last one, told as text to commands and screen alike."""
