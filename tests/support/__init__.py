"""Code shared by the lab tests, molecule's verification and the benchmark. Not part of the product."""
