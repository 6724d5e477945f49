"""Coverage-guided fuzzing of every decoder, both twins of the kernels at once; see README.md."""
