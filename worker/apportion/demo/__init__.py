"""Code that serves the demo: an embedded broker, a workload and the demo itself."""
