"""What Apportion costs, as ratios of things run side by side: `make benchmarks`."""
