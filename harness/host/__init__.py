"""What machine this is: MLPerf's system description, and facts that bear on a measurement."""
