"""Jobs whose ranks wait as ranks over NCCL do: below Python, in a C library that spins, for a GPU that works by itself.

What the host does is real: processes, threads, states, frames, native frames. The GPU is a queue of kernels that a
thread of the C library runs in order: one that computes lasts for a while, one that is a collective runs over gloo in
gloo's own threads. So a rank's main thread never waits for its peers, only for its own GPU, as over NCCL.
"""
