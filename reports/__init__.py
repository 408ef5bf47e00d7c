"""Reports: Analysis in, text out. No calculation here."""
