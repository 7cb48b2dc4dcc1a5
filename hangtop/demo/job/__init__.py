"""The demo's training jobs: real torch ranks over gloo, in the shapes that users write, with faults to plant."""
