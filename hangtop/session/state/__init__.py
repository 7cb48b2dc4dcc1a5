"""What a session knows of a job now, and how little memory that takes."""
