"""The session's own mind: when stacks are looked at, witnesses asked, and the diagnosis."""
