"""Modes as the chains saw them: labels, weights, a report and its pictures."""
