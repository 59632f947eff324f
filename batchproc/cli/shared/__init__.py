"""What commands have in common: settings and stores, values of options, questions, and how they print."""
