"""What the tests on the lab, molecule's verification and the benchmark share. Nothing here belongs to the product."""
