"""Benchmarks of Apportion, as ratios of things that run side by side: `make benchmarks`."""
