"""What kernels are made of: trajectories, and candidates of jumps."""
