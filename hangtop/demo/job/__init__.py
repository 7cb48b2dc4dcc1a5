"""The demo's training job: real torch ranks over gloo, written as users write jobs, with faults to plant."""
