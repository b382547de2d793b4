"""Shared foundations: errors, options, seeds, records, statistics, parallel map, sweep, journal."""
