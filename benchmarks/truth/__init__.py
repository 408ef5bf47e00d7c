"""Planted bottlenecks with known answers: is the report's verdict right?"""
