"""`make fire`: interrupt a playbook again and again, and check that the next run repairs everything."""
