"""Maps on phase space: kinetic energy, leapfrog, Langevin half-steps, the equipotential transformation."""
