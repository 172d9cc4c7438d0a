"""A result as a figure, as a page, and in a notebook."""
