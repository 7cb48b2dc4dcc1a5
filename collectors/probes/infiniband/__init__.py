"""The fabric measured with the tools that are installed for it: ibv_devinfo, perftest, ibping, ibtracert."""
