"""Write reports from an Analysis. Nothing is calculated here."""
