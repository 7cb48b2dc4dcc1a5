"""What reads traces, on the nodes and here: standard library only, memory bounded whatever a trace's size."""
