"""The demo: a small real job on two embedded SSH servers, with simulated devices and planted faults."""
